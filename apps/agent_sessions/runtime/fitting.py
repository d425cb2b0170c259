"""Whether JSON fits a JSON Schema that a caller brought along; nothing is ever fetched for it (B2, K19)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError, ValidationError
from referencing import Registry
from referencing.exceptions import Unresolvable

from apps.core import json_text
from apps.core.errors import MAX_ISSUES, Issue

_LONGEST = 300


def check_schema(schema: Any, *, max_bytes: int = json_text.MAX_VALUE_BYTES) -> list[Issue]:
    """What keeps ``schema`` from being an output schema; pointers are relative to it.

    It is an object of JSON Schema 2020-12 whose references stay inside it.
    """
    if not isinstance(schema, dict):
        return [Issue("type", "", "Send a JSON Schema as an object.")]
    if issues := json_text.find_issues(schema, max_bytes=max_bytes):
        return issues
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        return [Issue("schema", json_text.pointer(error.absolute_path), f"No JSON Schema 2020-12: {_said(error)}.")]
    return list(_foreign_references(schema, ()))


def _foreign_references(value: Any, path: tuple[str | int, ...]) -> Iterator[Issue]:
    """References that lead out of the schema: whoever follows one asks another host."""
    if isinstance(value, list):
        for index, child in enumerate(value):
            yield from _foreign_references(child, (*path, index))
    if not isinstance(value, dict):
        return
    for key, child in value.items():
        if key in ("$ref", "$dynamicRef") and isinstance(child, str) and not child.startswith("#"):
            yield Issue("reference", json_text.pointer((*path, key)), "Refer to a place inside this schema: `#/…`.")
        elif key not in ("const", "enum", "default", "examples"):
            yield from _foreign_references(child, (*path, key))


def find_misfits(schema: dict[str, Any] | None, value: Any, *, max_bytes: int) -> list[Issue]:
    """What keeps ``value`` from fitting; pointers are relative to it.  Without a schema a text with content fits."""
    if issues := json_text.find_issues(value, max_bytes=max_bytes):
        return issues
    if schema is None:
        fits = isinstance(value, str) and value.strip()
        return [] if fits else [Issue("type", "", "Answer with a text.")]
    validator = Draft202012Validator(schema, registry=Registry())
    issues = []
    try:
        for error in validator.iter_errors(value):
            issues.append(Issue(str(error.validator), json_text.pointer(error.absolute_path), f"{_said(error)}."))
            if len(issues) > MAX_ISSUES:
                break
    except (Unresolvable, RecursionError):
        return [Issue("schema", "", "The schema refers to a place that is not in it, or to itself without end.")]
    return sorted(issues, key=lambda issue: (issue.path, issue.code))


def fits_part(root: dict[str, Any], part: Any, value: Any) -> bool:
    """Whether ``value`` fits a part of the schema ``root``, whose references it may use."""
    try:
        return bool(Draft202012Validator(root, registry=Registry()).evolve(schema=part).is_valid(value))
    except (Unresolvable, RecursionError):
        return False


def _said(error: ValidationError | SchemaError) -> str:
    """The library's words, which repeat the value: cut short."""
    text = " ".join(error.message.split())
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def in_words(issues: list[Issue], *, most: int = 5) -> str:
    """Issues as a line that a model or a person reads."""
    shown = "; ".join(f"{issue.path or 'the whole output'}: {issue.suggestion.rstrip('.')}" for issue in issues[:most])
    more = len(issues) - most
    return f"{shown} (and {more} more)" if more > 0 else shown
