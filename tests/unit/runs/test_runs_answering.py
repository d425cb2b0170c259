"""Truth tables: how an answer came in, and behind which ways a person stands."""

from __future__ import annotations

import itertools
import uuid

import pytest

from apps.access.domain.entries import MCP_ENTRIES, REST_ENTRY, Entry
from apps.core.caller import Caller, Source
from apps.core.errors import ErrorCode, LoomError
from apps.runs.domain.answering import answered_via, check_answer, counts_as_person

#: For each Entry: how what is sent there as a call came in, and whether a person gave it.
AT_ENTRY = {
    "/mcp": ("answer_ask", False),
    "/mcp/codex": ("answer_ask", False),
    "/internal/mcp": ("cli", True),
    "/internal/mcp/studio": ("answer_ask", True),
    "/api/v1": ("rest", True),
}
VIAS = ["native", "answer_ask", "console", "rest", "cli"]


@pytest.mark.rule("H6")
@pytest.mark.parametrize("entry", [*MCP_ENTRIES, REST_ENTRY], ids=lambda entry: entry.path)
def test_how_an_answer_came_in_and_whether_a_person_gave_it(entry: Entry) -> None:
    caller = Caller(uuid.uuid4(), "p", "credential:x", entry.source, entry.path)
    via = answered_via(caller)
    assert (via, counts_as_person(entry.source, via)) == AT_ENTRY[entry.path]


@pytest.mark.rule("H6", "K13")
@pytest.mark.parametrize(("source", "via"), itertools.product(Source, VIAS))
def test_only_an_agent_without_a_native_form_is_no_person(source: Source, via: str) -> None:
    assert counts_as_person(source, via) is (source is not Source.AGENT_IDE or via == "native")


@pytest.mark.rule("H3", "E3")
def test_pointers_of_a_wrong_answer_lead_into_the_arguments() -> None:
    request = [{"id": "q", "question": "?", "isSkippable": False}]
    given = [{"questionId": "q", "isSkipped": True}, "x"]
    wrong = [("questions", given, ["/answer/0/isSkipped", "/answer/1"]), ("confirmation", 1, ["/answer"])]
    for kind, answer, paths in wrong:
        with pytest.raises(LoomError) as refusal:
            check_answer(kind, request, answer)
        assert refusal.value.code is ErrorCode.INVALID_REQUEST
        issues = refusal.value.to_wire()["validation"]["issues"]
        assert [issue["path"] for issue in issues] == paths
    check_answer("questions", request, [{"questionId": "q", "isSkipped": False, "answer": "x"}])
    check_answer("confirmation", {"context": "?"}, {"isConfirmed": False})
