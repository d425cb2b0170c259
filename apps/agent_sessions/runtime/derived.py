"""A value that fits a JSON Schema, made of it and of an input: what `offline` answers without a script."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from apps.agent_sessions.runtime.fitting import fits_part

_DEPTH = 20
#: Below this, what may be null is: schemas that refer to themselves end soon.
_DEEP = 3
_FORMATS = {
    "date-time": "2026-01-01T12:00:00Z",
    "date": "2026-01-01",
    "time": "12:00:00Z",
    "duration": "PT1S",
    "email": "offline@example.org",
    "uri": "https://example.org/",
    "uuid": "00000000-0000-4000-8000-000000000000",
}


def derive(schema: dict[str, Any] | None, given: Any) -> Any:
    """The same value for the same arguments.  It fits most schemas; whoever uses it looks."""
    text = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False, sort_keys=True)
    if schema is None:
        return f"offline: {text}"
    return _value(schema, given, _Made(schema, text), 0)


class _Made:
    """What a whole derivation shares: the root schema, for references, and the input as a text."""

    def __init__(self, root: dict[str, Any], text: str) -> None:
        self.root = root
        self.text = text

    def resolve(self, reference: str) -> Any:
        place: Any = self.root
        for part in reference.removeprefix("#").split("/")[1:]:
            part = part.replace("~1", "/").replace("~0", "~")
            place = place.get(part, True) if isinstance(place, Mapping) else True
        return place


def _fits(schema: Any, value: Any, made: _Made) -> bool:
    return fits_part(made.root, schema, value)


def _value(schema: Any, given: Any, made: _Made, depth: int) -> Any:
    if not isinstance(schema, dict) or depth > _DEPTH:
        return None
    if isinstance(schema.get("$ref"), str):
        resolved = made.resolve(schema["$ref"])
        return _value(_merged([resolved, schema]), given, made, depth + 1)
    if "allOf" in schema:
        parts = [_opened(one, made) for one in schema["allOf"]]
        rest = {key: value for key, value in schema.items() if key != "allOf"}
        return _value(_merged([*parts, rest]), given, made, depth + 1)
    if "const" in schema:
        return schema["const"]
    if schema.get("enum"):
        return given if given in schema["enum"] else schema["enum"][0]
    for key in ("anyOf", "oneOf"):
        if schema.get(key):
            if depth > _DEEP and _fits(schema, None, made):
                return None
            rest = {name: value for name, value in schema.items() if name != key}
            found = [_value(_merged([_opened(one, made), rest]), given, made, depth + 1) for one in schema[key]]
            return next((one for one in found if _fits(schema, one, made)), found[0])
    if "default" in schema:
        return schema["default"]
    if schema.get("examples"):
        return schema["examples"][0]
    return _typed(_type(schema), schema, given, made, depth)


def _opened(schema: Any, made: _Made) -> Any:
    if isinstance(schema, dict) and isinstance(schema.get("$ref"), str):
        return _merged([made.resolve(schema["$ref"]), schema])
    return schema


def _merged(parts: list[Any]) -> dict[str, Any]:
    """Schemas that hold together, as one: properties and required members add up, else the later one wins."""
    whole: dict[str, Any] = {}
    for part in parts:
        for key, value in part.items() if isinstance(part, dict) else ():
            if key == "properties":
                whole[key] = {**whole.get(key, {}), **value}
            elif key == "required":
                whole[key] = [*whole.get(key, []), *value]
            elif key != "$ref" or part is not parts[-1] or len(parts) == 1:
                whole[key] = value
    return whole


def _type(schema: dict[str, Any]) -> str:
    declared = schema.get("type")
    if isinstance(declared, list):
        return next((one for one in declared if one != "null"), "null")
    if isinstance(declared, str):
        return declared
    if "properties" in schema or "required" in schema:
        return "object"
    if "items" in schema or "prefixItems" in schema:
        return "array"
    return "string"


def _typed(kind: str, schema: dict[str, Any], given: Any, made: _Made, depth: int) -> Any:
    if kind == "object":
        known = given if isinstance(given, dict) else {}
        properties = schema.get("properties", {})
        return {
            name: _member(properties.get(name, True), known.get(name), name in known, made, depth)
            for name in [*properties, *schema.get("required", [])]
            if name in schema.get("required", []) or name in known
        }
    if kind == "array":
        first = [_value(one, None, made, depth + 1) for one in schema.get("prefixItems", [])]
        wanted = max(schema.get("minItems", 0), len(first))
        item = schema.get("items", {"type": "string"})
        rest = [_value(item, None, made, depth + 1) for _ in range(len(first), wanted)]
        if schema.get("uniqueItems"):
            rest = [_differing(value, number, item) for number, value in enumerate(rest)]
        return first + rest
    if kind in ("integer", "number"):
        return _number(schema, whole=kind == "integer")
    if kind == "boolean":
        return True
    return None if kind == "null" else _string(schema, made)


def _member(schema: Any, given: Any, is_given: bool, made: _Made, depth: int) -> Any:
    """A member of the input that fits is taken over."""
    if is_given and _fits(schema, given, made):
        return given
    return _value(schema if isinstance(schema, dict) else {}, given, made, depth + 1)


def _differing(value: Any, number: int, schema: Any) -> Any:
    """The item of this number, where no two may be equal: a text or an integer can tell them apart."""
    if not number or isinstance(value, bool) or not isinstance(schema, dict):
        return value
    if isinstance(value, str):
        suffix = f" {number + 1}"
        return value[: schema.get("maxLength", len(value) + len(suffix)) - len(suffix)] + suffix
    return value + number * schema.get("multipleOf", 1) if isinstance(value, int) else value


def _number(schema: dict[str, Any], *, whole: bool) -> int | float:
    step = schema.get("multipleOf", 1 if whole else 0.5)
    least, most = schema.get("minimum"), schema.get("maximum")
    if "exclusiveMinimum" in schema:
        least = schema["exclusiveMinimum"] + step
    if "exclusiveMaximum" in schema:
        most = schema["exclusiveMaximum"] - step
    value = least if least is not None else min(0, most) if most is not None else 0
    steps = -(-value // step)  # up to the next multiple
    value = steps * step
    return int(value) if whole or float(value).is_integer() else value


def _string(schema: dict[str, Any], made: _Made) -> str:
    if schema.get("format") in _FORMATS:
        return _FORMATS[schema["format"]]
    least, most = schema.get("minLength", 0), schema.get("maxLength", 2000)
    return f"offline: {made.text}".ljust(least, ".")[:most]
