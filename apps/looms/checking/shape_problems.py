"""What is wrong with the shape of ``loom.yaml``: from pydantic's words to an author's."""

from __future__ import annotations

from typing import Any

from pydantic_core import ErrorDetails

from apps.looms.checking.shapes import AgentShape, CodeShape, LoomShape, RetryShape, Shape, StageShape, kind_of
from apps.looms.checking.yaml_tree import Document, Path
from apps.looms.diagnostics import Diagnostic, did_you_mean
from apps.looms.domain.durations import HINT
from apps.looms.domain.names import LOOM_FILE

_NOUNS: dict[type[Shape], str] = {LoomShape: "a Loom", StageShape: "a Stage", RetryShape: "`retry`"}
#: What a required key is for.
_PURPOSES = {
    "loom": "the Loom's name, such as parcel",
    "title": "what people call it",
    "description": "what it is for, in a sentence",
    "entry": "the name of what it begins with",
    "stages": "the Stages below it, by name",
    "steps": "the Steps below it, by name",
    "on": "where each outcome leads, such as {done: end}",
    "output": "the model of its result, such as schemas:Written",
    "attempts": "how many there may be, the first included",
}
#: pydantic's name of an expected type → what the value must be, and how to write it.
_TYPES = {
    "string": ("a text", "Write it as one text, in quotes if it looks like a number."),
    "int": ("a whole number", "Write a whole number."),
    "bool": ("true or false", "Write true or false; yes and no are texts."),
    "list": ("a list", "Write it as [one, two]."),
}
_TYPES["dict"] = _TYPES["model"] = ("a mapping", "Write keys below it, further indented.")
#: Where a location has the kind of Step: stages, its name, steps, its name, kind.
_STEP_TAG = 4


def shape_problem(document: Document, detail: ErrorDetails) -> Diagnostic:
    """One of pydantic's errors at its place in the file."""
    path, is_key = _place(detail["loc"], document.value)
    message, suggestion = _words(document, detail, path, is_key=is_key)
    return Diagnostic.error(LOOM_FILE, document.line(path), message, suggestion)


def _words(document: Document, detail: ErrorDetails, path: Path, *, is_key: bool) -> tuple[str, str]:
    """Message and suggestion."""
    shown = f"`{'.'.join(str(part) for part in path)}`" if path else "The file"
    kind, context, value = detail["type"], detail.get("ctx") or {}, detail["input"]
    if kind == "extra_forbidden":
        return _unknown(document, path, shown)
    if kind == "missing":
        return _missing(document, path, shown, str(detail["loc"][-1]))
    if kind == "loom":
        what = f"The name `{path[-1] if path else value}`" if is_key else f"`{shown.strip('`')}: {value}`"
        return f"{what} cannot be used.", str(context["message"])
    if value is None and path:
        purpose = _PURPOSES.get(str(path[-1]))
        return f"{shown} has no value.", f"Write {purpose}." if purpose else "Give it one, or remove the key."
    if kind == "string_pattern_mismatch":
        return f"`{shown.strip('`')}: {value}` is unknown.", "Write fail or rerun."
    if kind == "too_short":
        return f"{shown} is empty.", "Name at least one."
    if kind in ("greater_than_equal", "less_than_equal"):
        bound = f"at least {context['ge']}" if "ge" in context else f"at most {context['le']}"
        return f"`{shown.strip('`')}: {value}` cannot be used.", f"Write a whole number, {bound}."
    if not kind.endswith("_type"):
        return f"{shown} cannot be used.", f"{detail['msg']}."
    must_be, suggestion = _TYPES[kind.removesuffix("_type")]
    if kind == "string_type" and path and path[-1] in ("timeout", "backoff"):
        suggestion = HINT
    return f"{shown} must be {must_be}.", suggestion


def _unknown(document: Document, path: Path, shown: str) -> tuple[str, str]:
    shape = _shape_at(path[:-1], document)
    if path[-1] in ("agent", "code") and shape in (CodeShape, AgentShape):
        return f"{shown}: a Step has either `code` or `agent`, not both.", "Make two Steps of it."
    others = [name for name in shape.model_fields if name not in _at(document, path[:-1])]
    return f"{shown} is no key of {_NOUNS.get(shape, 'a Step')}.", did_you_mean(str(path[-1]), others)


def _missing(document: Document, path: Path, shown: str, key: str) -> tuple[str, str]:
    where = shown if path else "The Loom"
    if key == "code" and _shape_at(path, document) is CodeShape:
        return f"{where} names neither `code` nor `agent`.", "Add code: module:function, or agent: name."
    return f"{where} lacks the key `{key}`.", f"Add `{key}:` and {_PURPOSES[key]}."


def _place(location: tuple[int | str, ...], value: Any) -> tuple[Path, bool]:
    """The path inside the document, without pydantic's own labels; whether it is a key that is meant."""
    is_key = bool(location) and location[-1] == "[key]"
    if location[2:3] == ("steps",) and len(location) > _STEP_TAG and location[_STEP_TAG] != "[key]":
        location = location[:_STEP_TAG] + location[_STEP_TAG + 1 :]
    path: list[str | int] = []
    for part in location[:-1] if is_key else location:
        is_inside = part in value if isinstance(value, dict) else isinstance(value, list) and isinstance(part, int)
        if is_inside:
            value = value[part]
            path.append(part)
    return tuple(path), is_key


def _shape_at(path: Path, document: Document) -> type[Shape]:
    """The shape of the mapping at ``path``."""
    if len(path) < 2 or path[0] != "stages":
        return LoomShape
    if len(path) < 4:
        return StageShape
    if path[-1] == "retry":
        return RetryShape
    step = document.value["stages"][path[1]]["steps"][path[3]]
    return AgentShape if kind_of(step) == "agent" else CodeShape


def _at(document: Document, path: Path) -> Any:
    value = document.value
    for part in path:
        value = value[part]
    return value
