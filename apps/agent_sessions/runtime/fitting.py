"""Whether JSON fits a JSON Schema that a caller brought along (B2, K19).

Nothing is ever fetched for it, and whatever the schema is, finding out takes a bounded time: patterns are matched
in time that grows with the text and no faster, and a check that takes too many steps is given up.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError, ValidationError
from jsonschema.validators import extend
from pydantic_core import SchemaError as PatternError
from pydantic_core import SchemaValidator, core_schema
from referencing import Registry
from referencing.exceptions import Unresolvable

from apps.core import json_text
from apps.core.errors import MAX_ISSUES, Issue

_LONGEST = 300
#: Parts of a schema that are held against parts of a value in one check; a value of the largest size needs half.
MOST_STEPS = 1_000_000


class _TooManySteps(Exception):
    """References multiply what there is to check."""


_steps: ContextVar[Iterator[int]] = ContextVar("steps")


@contextmanager
def _bounded() -> Iterator[None]:
    token = _steps.set(iter(range(MOST_STEPS)))
    try:
        yield
    finally:
        _steps.reset(token)


@functools.lru_cache(maxsize=256)
def _linear(pattern: str) -> SchemaValidator | None:
    """A matcher without backtracking; ``None`` where the pattern needs it."""
    try:
        return SchemaValidator(core_schema.str_schema(pattern=pattern, regex_engine="rust-regex"))
    except PatternError:
        return None


def _matches_pattern(validator: Any, pattern: str, instance: Any, schema: Any) -> Iterator[ValidationError]:
    """The keyword ``pattern``.  What backtracks comes from a Loom's own models: callers' were refused."""
    matcher = _linear(pattern)
    if matcher is None:
        yield from Draft202012Validator.VALIDATORS["pattern"](validator, pattern, instance, schema) or ()
    elif isinstance(instance, str) and not matcher.isinstance_python(instance):
        yield ValidationError(f"{instance!r} does not match {pattern!r}")


_Validator: Any = extend(Draft202012Validator, {"pattern": _matches_pattern})  # type: ignore[no-untyped-call]


def _evolve(validator: Any, **changes: Any) -> Any:
    """The same validator for a part of the schema, whatever ``$schema`` that part names; counted as a step."""
    if next(_steps.get(), None) is None:
        raise _TooManySteps
    kept = {"schema": validator.schema, "_resolver": validator._resolver, "registry": validator._registry}
    return _Validator(**{**kept, **changes})


_Validator.evolve = _evolve


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
    return [*_foreign_references(schema, ()), *_endless_patterns(schema, ())]


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


def _endless_patterns(value: Any, path: tuple[str | int, ...]) -> Iterator[Issue]:
    """Patterns that can take for ever, while no other thread of the process would run.

    They are looked for everywhere, for a reference makes a schema of any place."""
    if isinstance(value, list):
        for index, child in enumerate(value):
            yield from _endless_patterns(child, (*path, index))
    if not isinstance(value, dict):
        return
    for key, child in value.items():
        where = json_text.pointer((*path, key))
        if key == "patternProperties":
            yield Issue("unsupported", where, "Use `additionalProperties` with `propertyNames` instead.")
        elif key == "pattern" and isinstance(child, str):
            if _linear(child) is None:
                yield Issue("pattern", where, "Write it shorter, without backreferences and looking ahead or behind.")
        else:
            yield from _endless_patterns(child, (*path, key))


def find_misfits(schema: dict[str, Any] | None, value: Any, *, max_bytes: int) -> list[Issue]:
    """What keeps ``value`` from fitting; pointers are relative to it.  Without a schema a text with content fits."""
    if issues := json_text.find_issues(value, max_bytes=max_bytes):
        return issues
    if schema is None:
        fits = isinstance(value, str) and value.strip()
        return [] if fits else [Issue("type", "", "Answer with a text.")]
    validator = _Validator(schema, registry=Registry())
    issues = []
    try:
        with _bounded():
            for error in validator.iter_errors(value):
                issues.append(Issue(str(error.validator), json_text.pointer(error.absolute_path), f"{_said(error)}."))
                if len(issues) > MAX_ISSUES:
                    break
    except _TooManySteps:
        return [Issue("schema", "", "The schema takes too many steps to check: its references multiply.")]
    except (Unresolvable, RecursionError):
        return [Issue("schema", "", "The schema refers to a place that is not in it, or to itself without end.")]
    return sorted(issues, key=lambda issue: (issue.path, issue.code))


def fits_part(root: dict[str, Any], part: Any, value: Any) -> bool:
    """Whether ``value`` fits a part of the schema ``root``, whose references it may use."""
    try:
        with _bounded():
            return bool(_Validator(root, registry=Registry()).evolve(schema=part).is_valid(value))
    except (Unresolvable, RecursionError, _TooManySteps):
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
