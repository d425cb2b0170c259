"""What an agent may do with a call: the truth tables of section 7."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from apps.agents.domain.deciding import (
    CallFacts,
    Decision,
    KnownToolCall,
    decide_claim,
    decide_closing,
    decide_known_tool_call,
    require_no_running_tool,
    require_open,
    require_owner,
    require_room,
)
from apps.agents.domain.statuses import MAX_RECEIPTS, RECEIPT_SECONDS, ClosedAs
from apps.core.errors import LoomError

FREE, CLAIMED = CallFacts(), CallFacts(claimed=True)
APPLY, REPLAY, CONFLICT = Decision.APPLY, Decision.REPLAY, "CONFLICT"


def outcome(decide: Any, *arguments: Any, **keywords: Any) -> Any:
    """What the decision says, or the code that it refuses with."""
    try:
        return decide(*arguments, **keywords)
    except LoomError as refusal:
        return refusal.code.value


@pytest.mark.rule("A10")
@pytest.mark.parametrize("closed_as", [None, *ClosedAs])
def test_only_an_open_call_takes_anything_new(closed_as: ClosedAs | None) -> None:
    assert outcome(require_open, replace(CLAIMED, closed_as=closed_as)) == (CONFLICT if closed_as else None)


@pytest.mark.rule("A2")
@pytest.mark.parametrize(
    ("facts", "same_claim", "expected"),
    [
        (FREE, False, APPLY),
        (CLAIMED, True, REPLAY),
        (CLAIMED, False, CONFLICT),
        *((replace(CLAIMED, closed_as=closed), same, CONFLICT) for closed in ClosedAs for same in (True, False)),
        (replace(FREE, closed_as=ClosedAs.CANCELLED), False, CONFLICT),
    ],
)
def test_who_gets_a_call(facts: CallFacts, same_claim: bool, expected: Any) -> None:
    assert outcome(decide_claim, facts, same_claim=same_claim) == expected


@pytest.mark.rule("A3", "K11")
@pytest.mark.parametrize("facts", [FREE, CLAIMED, replace(CLAIMED, closed_as=ClosedAs.COMPLETED)])
def test_a_token_that_does_not_fit_is_forbidden_in_every_state(facts: CallFacts) -> None:
    assert outcome(require_owner, facts, token_fits=False) == "FORBIDDEN"
    assert outcome(require_owner, facts, token_fits=True) is None


@pytest.mark.rule("A3")
@pytest.mark.parametrize(
    ("tool", "digest", "expected"),
    [("add", "d", REPLAY), ("add", "e", CONFLICT), ("put", "d", CONFLICT), ("put", "e", CONFLICT)],
)
def test_a_known_tool_call_answers_only_itself(tool: str, digest: str, expected: Any) -> None:
    assert outcome(decide_known_tool_call, KnownToolCall("add", "d"), KnownToolCall(tool, digest)) == expected


@pytest.mark.rule("A3", "A5", "A6")
@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, None),
        ({"receipts_made": MAX_RECEIPTS - 1}, None),
        ({"receipts_made": MAX_RECEIPTS}, "CAPACITY"),
        ({"running_tool": "t"}, "BUSY"),
        ({"running_tool": "t", "receipts_made": MAX_RECEIPTS}, "BUSY"),
        ({"tools_closed": True}, "TOOLS_CLOSED"),
        ({"tools_closed": True, "running_tool": "t", "receipts_made": MAX_RECEIPTS}, "TOOLS_CLOSED"),
    ],
)
def test_whether_a_new_tool_call_has_room_and_which_refusal_comes_first(changes: dict[str, Any], expected: Any) -> None:
    assert outcome(require_room, replace(CLAIMED, **changes)) == expected


@pytest.mark.rule("A8", "A9", "A10", "A5")
@pytest.mark.parametrize("as_", [ClosedAs.COMPLETED, ClosedAs.FAILED])
@pytest.mark.parametrize("closed_as", [None, *ClosedAs])
@pytest.mark.parametrize("same", [True, False])
@pytest.mark.parametrize("over", [True, False])
def test_an_identical_closing_is_answered_again_while_its_receipt_lives(
    as_: ClosedAs, closed_as: ClosedAs | None, same: bool, over: bool
) -> None:
    closed = closed_as is not None
    facts = replace(CLAIMED, closed_as=closed_as, closing_digest="d" if closed else "", receipts_over=over and closed)
    if closed_as is None:
        expected: Any = APPLY
    else:
        expected = REPLAY if closed_as is as_ and same and not over else CONFLICT
    assert outcome(decide_closing, facts, as_=as_, digest="d" if same else "e") == expected


@pytest.mark.rule("A8")
def test_a_result_waits_for_the_tool_that_runs() -> None:
    assert outcome(require_no_running_tool, CLAIMED) is None
    assert outcome(require_no_running_tool, replace(CLAIMED, running_tool="t")) == "BUSY"


@pytest.mark.rule("A5")
def test_the_numbers_are_those_of_the_protocol() -> None:
    assert (MAX_RECEIPTS, RECEIPT_SECONDS) == (256, 1800)
