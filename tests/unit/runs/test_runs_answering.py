"""Truth tables: how an answer came in, and behind which ways a person stands."""

from __future__ import annotations

import uuid

import pytest

from apps.core.caller import Caller, Source
from apps.runs.domain.answering import answered_via, counts_as_person


@pytest.mark.rule("H6")
@pytest.mark.parametrize(
    ("source", "entry", "via", "person"),
    [
        (Source.AGENT_IDE, "/mcp", "answer_ask", False),
        (Source.AGENT_IDE, "/mcp/codex", "answer_ask", False),
        (Source.CLI, "/internal/mcp", "cli", True),
        (Source.STUDIO, "/internal/mcp/studio", "answer_ask", True),
        (Source.STUDIO, "/api/v1", "rest", True),
    ],
)
def test_how_an_answer_came_in_and_whether_a_person_gave_it(source: Source, entry: str, via: str, person: bool) -> None:
    caller = Caller(uuid.uuid4(), "p", "credential:x", source, entry)
    assert answered_via(caller) == via
    assert counts_as_person(source, via) is person


@pytest.mark.rule("H6")
def test_a_native_form_is_a_persons_even_at_an_agents_entry() -> None:
    assert counts_as_person(Source.AGENT_IDE, "native")
