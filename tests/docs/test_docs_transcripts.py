"""What plays the transcripts notices what is not as shown."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from docs_pages import PAGES, blocks, name_of
from docs_transcripts import Exchange, difference, exchanges, play

SHOWN = """\
→ run {"operationId": "OPERATION", "input": {"text": "hi"}}
← {"run": {"id": "RUN", "at": "TIME", "…": "…"},
   "parts": [1, "…"]}
→ get_run {"id": "RUN"}
← {"run": "RUN"}
"""


def test_a_transcript_is_read_as_calls_and_results() -> None:
    first, second = exchanges(SHOWN)
    assert (first.tool, first.given["input"], first.result["parts"]) == ("run", {"text": "hi"}, [1, "…"])
    assert second == Exchange("get_run", {"id": "RUN"}, {"run": "RUN"})
    with pytest.raises(AssertionError, match="no transcript"):
        exchanges("something\n" + SHOWN)


def test_its_calls_are_made_with_the_values_that_came_before() -> None:
    made = []
    started = {"run": {"id": "r-1", "at": "2026-01-01T00:00:00Z", "x": 1}, "parts": [1, 2]}

    async def call(tool: str, **given: Any) -> Any:
        made.append(given)
        return started if tool == "run" else {"run": "r-1"}

    names: dict[str, Any] = {}
    asyncio.run(play(SHOWN, call, names))
    assert made == [{"operationId": names["OPERATION"], "input": {"text": "hi"}}, {"id": "r-1"}]


def test_a_result_that_is_not_as_shown_ends_it() -> None:
    async def call(tool: str, **given: Any) -> Any:
        return {"run": {}}

    with pytest.raises(AssertionError, match=r"run: .* has no"):
        asyncio.run(play(SHOWN, call, {}))


@pytest.mark.parametrize(
    ("shown", "found"),
    [
        ({"a": 1}, {"a": 2}),
        ({"a": 1}, {"a": True}),
        ({"a": 1}, {}),
        ({"a": 1}, {"a": 1, "b": 2}),
        ({"a": {"b": "x"}, "…": "…"}, {"a": {"b": "y"}}),
        ([1], [1, 2]),
        ([1, 2, "…"], [1]),
        ([1, "…"], [2, 3]),
        ({"a": "ID", "b": "ID"}, {"a": "x", "b": "y"}),
        ("ID", 7),
        ("TIME", "soon"),
        ("a … c", "a b d"),
        ("a", None),
        (None, "a"),
    ],
)
def test_each_difference_is_noticed(shown: Any, found: Any) -> None:
    assert difference(shown, found, {}) is not None


@pytest.mark.parametrize(
    ("shown", "found"),
    [
        ({"a": "…", "…": "…"}, {"a": [1], "b": 2}),
        ([1, "…"], [1, 2, 3]),
        ({"a": "ID", "b": "ID"}, {"a": "x", "b": "x"}),
        ("a … c", "a b\nb c"),
        ({"at": "TIME"}, {"at": "2026-11-30T12:00:00.000000Z"}),
    ],
)
def test_what_may_differ_may(shown: Any, found: Any) -> None:
    assert difference(shown, found, {}) is None


def test_there_are_transcripts_and_all_can_be_read() -> None:
    found = {name_of(page): exchanges(b.text) for page in PAGES for b in blocks(page) if b.language == "transcript"}
    assert "docs/how-to/work-as-an-agent.md" in found
    assert all(found.values())
