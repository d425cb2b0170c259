"""Truth tables: what may be done to a Run in each of its states."""

from __future__ import annotations

import pytest

from apps.core.errors import ErrorCode, LoomError
from apps.runs.domain.admitting import (
    CancelDecision,
    PauseDecision,
    decide_answer,
    decide_cancel,
    decide_pause,
    decide_resume,
)
from apps.runs.domain.answering import Answered
from apps.runs.domain.facts import Due, Position, RunFacts
from apps.runs.domain.statuses import TERMINAL, RunStatus, SegmentKind


def facts(
    status: RunStatus,
    *,
    kind: SegmentKind = SegmentKind.STEP,
    attempts: int = 0,
    pausing: bool = False,
    historical: bool = False,
    revision: int = 7,
) -> RunFacts:
    return RunFacts(
        status=status,
        revision=revision,
        pause_requested=pausing,
        historical=historical,
        position=Position("stage", "step", 1),
        due=Due(kind, attempts),
        saved_outcome=None,
    )


@pytest.mark.rule("R9")
@pytest.mark.parametrize(
    ("run", "decision"),
    [
        (facts(RunStatus.QUEUED), PauseDecision.NOW),
        (facts(RunStatus.QUEUED, kind=SegmentKind.INITIALIZE), PauseDecision.NOW),
        (facts(RunStatus.QUEUED, attempts=1), PauseDecision.AFTER_THE_STEP),
        (facts(RunStatus.QUEUED, kind=SegmentKind.CONTINUATION), PauseDecision.AFTER_THE_STEP),
        (facts(RunStatus.QUEUED, pausing=True), PauseDecision.NOTHING),
        (facts(RunStatus.RUNNING), PauseDecision.AFTER_THE_STEP),
        (facts(RunStatus.RUNNING, pausing=True), PauseDecision.NOTHING),
        (facts(RunStatus.WAITING, kind=SegmentKind.CONTINUATION), PauseDecision.AFTER_THE_STEP),
        (facts(RunStatus.WAITING, pausing=True), PauseDecision.NOTHING),
        (facts(RunStatus.PAUSED), PauseDecision.NOTHING),
    ],
)
def test_a_pause_is_applied_at_once_only_between_steps(run: RunFacts, decision: PauseDecision) -> None:
    assert decide_pause(run) is decision


@pytest.mark.rule("R10")
@pytest.mark.parametrize("status", [s for s in RunStatus if s is not RunStatus.PAUSED])
@pytest.mark.parametrize("pausing", [False, True])
def test_only_a_paused_run_can_be_resumed(status: RunStatus, pausing: bool) -> None:
    with pytest.raises(LoomError) as refusal:
        decide_resume(facts(status, pausing=pausing), expected_revision=7)
    assert refusal.value.code is ErrorCode.CONFLICT


@pytest.mark.rule("R10")
@pytest.mark.parametrize(("expected", "admitted"), [(6, False), (7, True), (8, False)])
def test_a_resume_is_bound_to_the_revision_that_was_seen(expected: int, admitted: bool) -> None:
    paused = facts(RunStatus.PAUSED)
    if admitted:
        decide_resume(paused, expected_revision=expected)
    else:
        with pytest.raises(LoomError, match="revision 7"):
            decide_resume(paused, expected_revision=expected)


@pytest.mark.rule("R11")
@pytest.mark.parametrize("status", list(RunStatus))
def test_a_cancel_ends_whatever_has_not_ended(status: RunStatus) -> None:
    expected = CancelDecision.NOTHING if status in TERMINAL else CancelDecision.NOW
    assert decide_cancel(facts(status)) is expected


@pytest.mark.rule("R4", "R9", "R10", "R11")
@pytest.mark.parametrize("status", sorted(TERMINAL))
def test_a_historical_run_refuses_every_write(status: RunStatus) -> None:
    run = facts(status, historical=True)
    for decide in (
        lambda: decide_pause(run),
        lambda: decide_resume(run, expected_revision=7),
        lambda: decide_cancel(run),
        lambda: decide_answer(run, pending_action=None, action_id="a"),
    ):
        with pytest.raises(LoomError, match="historical") as refusal:
            decide()
        assert refusal.value.code is ErrorCode.CONFLICT


@pytest.mark.rule("R9")
@pytest.mark.parametrize("status", sorted(TERMINAL))
def test_an_ended_run_refuses_pause_resume_and_answer(status: RunStatus) -> None:
    run = facts(status)
    for decide in (
        lambda: decide_pause(run),
        lambda: decide_resume(run, expected_revision=7),
        lambda: decide_answer(run, pending_action="a", action_id="a"),
    ):
        with pytest.raises(LoomError) as refusal:
            decide()
        assert refusal.value.code is ErrorCode.CONFLICT


@pytest.mark.rule("H3")
@pytest.mark.parametrize(("pending", "asked", "admitted"), [("a", "a", True), ("a", "b", False), (None, "a", False)])
def test_only_the_pending_action_can_be_answered(pending: str | None, asked: str, admitted: bool) -> None:
    waiting = facts(RunStatus.WAITING)
    if admitted:
        decide_answer(waiting, pending_action=pending, action_id=asked)
    else:
        with pytest.raises(LoomError, match="does not wait for this Action"):
            decide_answer(waiting, pending_action=pending, action_id=asked)


@pytest.mark.rule("H3", "H4")
@pytest.mark.parametrize("status", [RunStatus.WAITING, RunStatus.QUEUED, RunStatus.COMPLETED])
def test_whoever_answers_too_late_hears_who_was_first_whatever_became_of_the_run(status: RunStatus) -> None:
    by = {"principal": "credential:x", "source": "cli", "via": "cli"}
    answered = Answered(by, "2026-11-30T12:00:00.000000Z")
    with pytest.raises(LoomError, match=r"by credential:x \(cli, via cli\) at 2026-11-30T12") as refusal:
        decide_answer(facts(status), pending_action="b", action_id="a", answered=answered)
    assert refusal.value.code is ErrorCode.CONFLICT
    assert refusal.value.details == {"answeredBy": by, "answeredAt": answered.at}
