"""From pydantic's errors to issues with RFC 6901 pointers and a cure each (E3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from apps.core.errors import Issue
from apps.core.json_text import pointer

#: pydantic error type → our code.  A type ending in ``_type`` is a wrong JSON type.
_CODES = {
    "missing": "required",
    "extra_forbidden": "unknown_member",
    "string_too_short": "length",
    "string_too_long": "length",
    "too_short": "length",
    "too_long": "length",
    "string_pattern_mismatch": "pattern",
    "literal_error": "choice",
    "enum": "choice",
    "greater_than": "range",
    "greater_than_equal": "range",
    "less_than": "range",
    "less_than_equal": "range",
    "union_tag_invalid": "choice",
    "union_tag_not_found": "required",
}


def _code(kind: str) -> str:
    if kind in _CODES:
        return _CODES[kind]
    return "type" if kind.endswith("_type") else "value"


def _path(location: Sequence[str | int], value: Any) -> tuple[str | int, ...]:
    """The part of ``location`` that exists in the input: union labels and tags are left out."""
    path: list[str | int] = []
    current = value
    for part in location:
        if isinstance(current, Mapping) and isinstance(part, str) and part in current:
            current = current[part]
        elif isinstance(current, Sequence) and isinstance(part, int) and not isinstance(current, str):
            current = current[part] if part < len(current) else None
        else:
            continue
        path.append(part)
    return tuple(path)


def _suggestion(error: ErrorDetails, name: str) -> str:
    kind = error["type"]
    if kind == "missing":
        return f"Add the required `{name}` member."
    if kind == "extra_forbidden":
        return f"Remove `{name}`; it is not a member of this shape."
    message = error["msg"].removeprefix("Value error, ")
    return message if message.endswith(".") else message + "."


def issues_of(error: ValidationError, value: Any) -> list[Issue]:
    """One :class:`Issue` for each of pydantic's, each place and code once, in a stable order."""
    found: dict[tuple[str, str], Issue] = {}
    for detail in error.errors(include_url=False, include_context=False, include_input=False):
        location = detail["loc"]
        path = _path(location, value)
        name = str(location[-1]) if location else ""
        if detail["type"] == "missing" or (
            detail["type"] == "extra_forbidden" and (not path or path[-1] != location[-1])
        ):
            path = (*path, name)
        issue = Issue(_code(detail["type"]), pointer(path), _suggestion(detail, pointer([name])[1:]))
        found.setdefault((issue.path, issue.code), issue)
    return list(found.values())
