"""The shape of ``loom.yaml``: every key that may stand there, and from it the :class:`LoomGraph`."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Discriminator, Field, Tag, ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError

from apps.looms.checking.yaml_tree import Document, Path
from apps.looms.diagnostics import Diagnostic, did_you_mean
from apps.looms.domain import graph
from apps.looms.domain.durations import HINT, parse_duration
from apps.looms.domain.names import END, MAX_ID, NAME, REFERENCE

LOOM_FILE = "loom.yaml"
MAX_ATTEMPTS = 100
_AGENT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_EXCEPTION = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*", re.ASCII)


def _error(message: str) -> PydanticCustomError:
    # Braces in a message would be taken for its context's fields.
    return PydanticCustomError("loom", "{message}", {"message": message})


def _name(value: str) -> str:
    if value == END:
        raise _error("`end` is where a route ends; choose another name.")
    if not NAME.fullmatch(value):
        raise _error("Use 1 to 64 lower-case letters, digits and _, beginning with a letter.")
    return value


def _reference(value: str) -> str:
    if not REFERENCE.fullmatch(value):
        raise _error("Write module:name, such as steps:collect.")
    return value


def _file_name(value: str) -> str:
    if not _AGENT_NAME.fullmatch(value):
        raise _error("Use 1 to 64 letters, digits, _ and -.")
    return value


def _exception(value: str) -> str:
    if not _EXCEPTION.fullmatch(value):
        raise _error("Name an exception class, such as ConnectionError or httpx.TransportError.")
    return value


def _outcome(value: str) -> str:
    if not value.strip() or len(value) > MAX_ID or not value.isprintable():
        raise _error(f"An outcome is a text of 1 to {MAX_ID} printable characters.")
    return value


def _duration(value: str) -> str:
    try:
        parse_duration(value)
    except ValueError as error:
        raise _error(str(error)) from None
    return value


def _timeout(value: str) -> str:
    if parse_duration(_duration(value)) <= 0:
        raise _error("A timeout must be longer than 0s.")
    return value


def _words(value: str) -> str:
    if not value.strip():
        raise _error("Write some words here.")
    return value


Name = Annotated[str, AfterValidator(_name)]
Reference = Annotated[str, AfterValidator(_reference)]
FileName = Annotated[str, AfterValidator(_file_name)]
Words = Annotated[str, AfterValidator(_words)]
Routes = Annotated[dict[Annotated[str, AfterValidator(_outcome)], str], Field(min_length=1)]
MaxVisits = Annotated[int, Field(ge=1, le=1_000_000)]


class _Shape(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class RetryShape(_Shape):
    attempts: Annotated[int, Field(ge=1, le=MAX_ATTEMPTS)]
    backoff: Annotated[str, AfterValidator(_duration)] = "1s"
    errors: Annotated[list[Annotated[str, AfterValidator(_exception)]], Field(min_length=1)] | None = None


class CodeShape(_Shape):
    code: Reference
    timeout: Annotated[str, AfterValidator(_timeout)] | None = None
    retry: RetryShape | None = None
    on_interrupt: Annotated[str, Field(pattern="^(fail|rerun)$")] = "fail"
    max_visits: MaxVisits = graph.DEFAULT_MAX_VISITS
    on: Routes


class AgentShape(_Shape):
    agent: FileName
    model: Words | None = None
    timeout: Annotated[str, AfterValidator(_timeout)] | None = None
    output: Reference
    tools: list[Reference] = []
    end_tool: Reference | None = None
    skills: list[FileName] = []
    max_visits: MaxVisits = graph.DEFAULT_MAX_VISITS
    on: Routes


def _kind(value: Any) -> str:
    return "agent" if isinstance(value, dict) and "agent" in value and "code" not in value else "code"


StepShape = Annotated[Annotated[CodeShape, Tag("code")] | Annotated[AgentShape, Tag("agent")], Discriminator(_kind)]


class StageShape(_Shape):
    state: Reference | None = None
    initialize: Reference | None = None
    entry: str
    steps: Annotated[dict[Name, StepShape], Field(min_length=1)]
    on: Routes


class LoomShape(_Shape):
    loom: Name
    title: Words
    description: Words
    input: Reference | None = None
    settings: Reference | None = None
    requires: list[str] = []
    exclusive: bool = False
    entry: str
    stages: Annotated[dict[Name, StageShape], Field(min_length=1)]


def read_loom_file(document: Document) -> tuple[graph.LoomGraph | None, list[Diagnostic]]:
    """The graph, or everything about the file's shape that keeps it from being one."""
    try:
        shape = LoomShape.model_validate(document.value)
    except ValidationError as error:
        details = error.errors(include_url=False, include_input=True)
        return None, [_diagnostic(document, detail) for detail in details]
    return _graph(shape), []


def _graph(shape: LoomShape) -> graph.LoomGraph:
    return graph.LoomGraph(
        loom=shape.loom,
        title=shape.title.strip(),
        description=shape.description.strip(),
        input=shape.input,
        settings=shape.settings,
        requires=tuple(shape.requires),
        exclusive=shape.exclusive,
        entry=shape.entry,
        stages={name: _stage(name, stage) for name, stage in shape.stages.items()},
    )


def _stage(name: str, shape: StageShape) -> graph.StageSpec:
    steps = {step: _step(step, step_shape) for step, step_shape in shape.steps.items()}
    return graph.StageSpec(name, shape.state, shape.initialize, shape.entry, steps, dict(shape.on))


def _step(name: str, shape: CodeShape | AgentShape) -> graph.StepSpec:
    timeout = None if shape.timeout is None else parse_duration(shape.timeout)
    if isinstance(shape, AgentShape):
        return graph.AgentStepSpec(
            name=name,
            agent=shape.agent,
            model=shape.model,
            timeout_seconds=timeout,
            output=shape.output,
            tools=tuple(shape.tools),
            end_tool=shape.end_tool,
            skills=tuple(shape.skills),
            max_visits=shape.max_visits,
            on=dict(shape.on),
        )
    return graph.CodeStepSpec(
        name=name,
        code=shape.code,
        timeout_seconds=timeout,
        retry=None if shape.retry is None else _retry(shape.retry),
        rerun_on_interrupt=shape.on_interrupt == "rerun",
        max_visits=shape.max_visits,
        on=dict(shape.on),
    )


def _retry(shape: RetryShape) -> graph.Retry:
    errors = None if shape.errors is None else tuple(shape.errors)
    return graph.Retry(shape.attempts, parse_duration(shape.backoff), errors)


# -- from pydantic's errors to diagnostics --------------------------------------------------------

_KINDS = {"str": "text", "int": "whole number", "bool": "true or false", "list": "list", "dict": "mapping"}


#: Where a location has the kind of Step: stages, its name, steps, its name, kind.
_STEP_TAG = 4


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


def _shape_at(path: Path, document: Document) -> type[_Shape]:
    """The shape of the mapping at ``path``."""
    if len(path) < 2 or path[0] != "stages":
        return LoomShape
    if len(path) < 4:
        return StageShape
    if path[-1] == "retry":
        return RetryShape
    step = document.value["stages"][path[1]]["steps"][path[3]]
    return AgentShape if _kind(step) == "agent" else CodeShape


def _diagnostic(document: Document, detail: ErrorDetails) -> Diagnostic:
    path, is_key = _place(detail["loc"], document.value)
    line = document.line(path)
    shown = ".".join(str(part) for part in path) or "the file"
    kind, context = detail["type"], detail.get("ctx") or {}
    if kind == "extra_forbidden":
        shape = _shape_at(path[:-1], document)
        if path[-1] in ("agent", "code") and shape in (CodeShape, AgentShape):
            message = f"`{shown}`: a Step has either `code` or `agent`, not both."
            return Diagnostic.error(LOOM_FILE, line, message, "Make two Steps of it.")
        others = [name for name in shape.model_fields if name not in _at(document, path[:-1])]
        return Diagnostic.error(
            LOOM_FILE, line, f"`{shown}` is no key of {_noun(shape)}.", did_you_mean(str(path[-1]), others)
        )
    if kind == "missing":
        name = str(detail["loc"][-1])
        where = f"`{shown}`" if path else "The Loom"
        if name == "code" and _shape_at(path, document) is CodeShape:
            return Diagnostic.error(
                LOOM_FILE,
                line,
                f"{where} names neither `code` nor `agent`.",
                "Add code: module:function, or agent: name.",
            )
        return Diagnostic.error(LOOM_FILE, line, f"{where} lacks the key `{name}`.", f"Add `{name}:`.")
    if kind == "loom":
        what = "The name" if is_key else "The value of"
        given = path[-1] if is_key and path else detail["input"]
        message = f"{what} `{given}` cannot be used." if is_key else f"`{shown}: {given}` cannot be used."
        return Diagnostic.error(LOOM_FILE, line, message, str(context["message"]))
    if kind == "string_pattern_mismatch":
        return Diagnostic.error(LOOM_FILE, line, f"`{shown}: {detail['input']}` is unknown.", "Write fail or rerun.")
    if kind.endswith("_type"):
        return Diagnostic.error(LOOM_FILE, line, f"`{shown}` must be a {_expected(kind)}.", _type_hint(path, kind))
    message = detail["msg"][0].lower() + detail["msg"][1:]
    return Diagnostic.error(LOOM_FILE, line, f"`{shown}`: {message}.", "Change it to fit.")


def _at(document: Document, path: Path) -> Any:
    value = document.value
    for part in path:
        value = value[part]
    return value


def _noun(shape: type[_Shape]) -> str:
    return {LoomShape: "a Loom", StageShape: "a Stage", RetryShape: "`retry`"}.get(shape, "a Step")


def _expected(kind: str) -> str:
    name = {"string": "str", "int": "int", "bool": "bool", "list": "list", "dict": "dict", "model": "dict"}
    return _KINDS.get(name.get(kind.removesuffix("_type"), ""), "mapping")


def _type_hint(path: Path, kind: str) -> str:
    if kind == "string_type" and path and path[-1] in ("timeout", "backoff"):
        return HINT
    return {
        "string_type": "Write it as one text, in quotes if it looks like a number.",
        "list_type": "Write it as [one, two].",
        "bool_type": "Write true or false.",
        "int_type": "Write a whole number.",
    }.get(kind, "Write keys below it, further indented.")
