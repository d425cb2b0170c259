"""Two texts or two JSON values compared: what came, what went, and what is said when it is too much."""

from __future__ import annotations

import json
from typing import Any

import jsonpatch
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.console.differences import MOST_LINES, MOST_SHOWN, compare_files, compare_lines, patch_between, readable

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text("ab\n", max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("kx", max_size=2), inner, max_size=3),
    max_leaves=8,
)


def test_lines_that_came_and_went_stand_between_those_around_them() -> None:
    diff = compare_lines(["a", "b", "c"], ["a", "B", "c"])
    assert [(line.sign, line.text) for line in diff.lines] == [
        ("@", "lines 1–3 → 1–3"), (" ", "a"), ("-", "b"), ("+", "B"), (" ", "c"),
    ]  # fmt: skip
    assert (diff.added, diff.removed, diff.said) == (1, 1, None)


def test_the_same_has_no_lines() -> None:
    assert compare_lines(["a"], ["a"]).is_same


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from("abc"), max_size=12), st.lists(st.sampled_from("abc"), max_size=12))
def test_added_and_removed_make_one_text_of_the_other(old: list[str], new: list[str]) -> None:
    diff = compare_lines(old, new, context=100)
    if old == new:
        return
    assert [line.text for line in diff.lines if line.sign in " -"] == old
    assert [line.text for line in diff.lines if line.sign in " +"] == new


@pytest.mark.rule("FR-I3")
def test_what_is_not_shown_is_said() -> None:
    many = [str(number) for number in range(MOST_LINES)]
    diff = compare_lines([], many)
    assert len(diff.lines) == MOST_SHOWN
    assert diff.said == f"The first 1,500 of {MOST_LINES + 1:,} lines."
    assert diff.added == MOST_LINES
    assert compare_lines([], [*many, "x"]).said == "Too long to compare line by line: 0 and 8,001 lines."
    patch = patch_between({}, {str(number): number for number in range(600)})
    assert len(patch.steps) == 500
    assert patch.said == "The first 500 of 600 steps."


@settings(max_examples=100, deadline=None)
@given(json_values, json_values)
def test_the_patch_makes_the_newer_value_of_the_older_one(old: Any, new: Any) -> None:
    patch = [
        {"op": step.op, "path": step.path}
        | ({"from": step.source} if step.op == "move" else {})
        | ({"value": json.loads(step.value)} if step.value else {})
        for step in patch_between(old, new).steps
    ]
    assert jsonpatch.apply_patch(old, patch) == new


@settings(max_examples=150, deadline=None)
@given(json_values, json_values)
def test_different_objects_read_differently(a: Any, b: Any) -> None:
    # Texts alone are shown as they are; inside an object each is told from any other value.
    one, other = {"v": a}, {"v": b}
    if repr(_without_line_ends(a)) != repr(_without_line_ends(b)):
        assert readable(one) != readable(other)


def _without_line_ends(value: Any) -> Any:
    """A text's lines, whatever ends the last one; keys in order."""
    if isinstance(value, str):
        return ("lines", *value.splitlines()) if "\n" in value else ("text", value)
    if isinstance(value, dict):
        return {key: _without_line_ends(value[key]) for key in sorted(value)}
    return [_without_line_ends(item) for item in value] if isinstance(value, list) else value


def test_a_text_of_several_lines_is_read_as_lines() -> None:
    assert readable({"b": "one\ntwo", "a": [1, {"x": None}], "c": {}}) == [
        "a:", "  - 1", "  -", "    x: null", "b: |", "  one", "  two", "c: {}",
    ]  # fmt: skip


def test_files_are_added_removed_or_changed_and_bytes_are_no_text() -> None:
    found = compare_files({"a": b"1\n", "b": b"\xff", "same": b"x"}, {"b": b"\xfe\xff", "c": b"2\n", "same": b"x"})
    assert [(file.path, file.change, file.diff.said) for file in found] == [
        ("a", "removed", None), ("b", "changed", "No text: 1 and 2 bytes."), ("c", "added", None),
    ]  # fmt: skip
