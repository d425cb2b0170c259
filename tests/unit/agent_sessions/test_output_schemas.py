"""Output schemas are a caller's: whatever one says, holding a value against it ends soon (B2)."""

from __future__ import annotations

import time
from typing import Any

import pytest

from apps.agent_sessions.runtime.fitting import check_schema, find_misfits

DIALECT = "https://json-schema.org/draft/2020-12/schema"
SLOW = "^(a+)+$"


def misfits(schema: dict[str, Any], value: Any) -> list[tuple[str, str]]:
    return [(issue.code, issue.path) for issue in find_misfits(schema, value, max_bytes=1024 * 1024)]


def doubling(times: int, **more: Any) -> dict[str, Any]:
    """A schema that is small, and looked at twice as often with each of its definitions."""
    steps = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2, **more} for n in range(times)}
    return {"$defs": {**steps, f"d{times}": {"type": "integer"}}, "$ref": "#/$defs/d0"}


@pytest.mark.rule("B2")
@pytest.mark.parametrize(
    ("schema", "path"),
    [
        ({"pattern": SLOW}, ""),
        ({"type": "object", "propertyNames": {"pattern": SLOW}}, "/x"),
        # A part that names its dialect is still held to the same.
        ({"properties": {"x": {"$schema": DIALECT, "pattern": SLOW}}}, "/x"),
        ({"$ref": "#/const", "const": {"$schema": DIALECT, "pattern": SLOW}}, ""),
    ],
)
def test_a_pattern_takes_no_longer_than_its_text(schema: dict[str, Any], path: str) -> None:
    hard = "a" * 40 + "!"
    value: Any = hard
    if "propertyNames" in schema:
        value = {hard: 1}
    elif path:
        value = {"x": hard}
    assert check_schema(schema) == []
    began = time.monotonic()
    assert "pattern" in {code for code, _ in misfits(schema, value)}
    assert time.monotonic() - began < 5
    assert misfits({"pattern": SLOW}, "aaa") == []


@pytest.mark.rule("B2", "E1")
@pytest.mark.parametrize("pattern", [r"(a)\1", "a(?=b)", "(?<!a)b", "(((a{99}){99}){99}){99}"])
@pytest.mark.parametrize("key", ["properties", "default"])
def test_a_pattern_that_may_take_for_ever_is_refused(pattern: str, key: str) -> None:
    schema = {key: {"x": {"pattern": pattern}}}
    assert [(one.code, one.path) for one in check_schema(schema)] == [("pattern", f"/{key}/x/pattern")]


@pytest.mark.rule("B2", "E1")
def test_patterns_of_names_are_refused_with_what_to_use_instead() -> None:
    found = check_schema({"patternProperties": {SLOW: {}}, "additionalProperties": False})
    assert [(one.code, one.path) for one in found] == [("unsupported", "/patternProperties")]
    assert "propertyNames" in found[0].suggestion


@pytest.mark.rule("B2")
@pytest.mark.parametrize("more", [{}, {"$schema": DIALECT}])
def test_references_that_multiply_are_given_up(more: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apps.agent_sessions.runtime.fitting.MOST_STEPS", 5_000)
    assert check_schema(doubling(60, **more)) == []
    assert misfits(doubling(60, **more), 1) == [("schema", "")]
    assert misfits(doubling(5, **more), 1) == []
    assert misfits(doubling(5, **more), "one")[0] == ("type", "")


@pytest.mark.rule("B2")
def test_the_largest_values_are_checked_whole() -> None:
    schema = {"type": "array", "items": {"type": "integer"}}
    assert misfits(schema, [1] * 60_000) == []
    assert misfits(schema, [1] * 60_000 + ["x"]) == [("type", "/60000")]
