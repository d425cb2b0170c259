"""What may be done to a Run in its present state (R4, R9–R11): pause, resume, cancel, answer."""

from __future__ import annotations

import enum

from apps.core.errors import ErrorCode, LoomError
from apps.runs.domain.answering import Answered
from apps.runs.domain.facts import RunFacts
from apps.runs.domain.statuses import RunStatus


class PauseDecision(enum.Enum):
    """What a pause comes to."""

    NOW = "now"
    AFTER_THE_STEP = "after_the_step"
    NOTHING = "nothing"


class CancelDecision(enum.Enum):
    """What a cancel comes to."""

    NOW = "now"
    NOTHING = "nothing"


def _refuse_historical(facts: RunFacts) -> None:
    if facts.historical:
        raise LoomError(
            ErrorCode.CONFLICT,
            "This Run ended before the service was started; historical Runs are read-only. Start a new Run.",
        )


def _refuse_terminal(facts: RunFacts) -> None:
    _refuse_historical(facts)
    if facts.terminal:
        raise LoomError(ErrorCode.CONFLICT, f"This Run is {facts.status.value} and cannot change any more.")


def decide_pause(facts: RunFacts) -> PauseDecision:
    """Pause at once only between Steps; else after the current Step saved its result (R9)."""
    _refuse_terminal(facts)
    if facts.status is RunStatus.PAUSED or facts.pause_requested:
        return PauseDecision.NOTHING
    return PauseDecision.NOW if facts.between_steps else PauseDecision.AFTER_THE_STEP


def decide_resume(facts: RunFacts, *, expected_revision: int) -> None:
    """Only a paused Run at the revision the caller has seen can be resumed (R10)."""
    _refuse_terminal(facts)
    if facts.status is not RunStatus.PAUSED:
        state = (
            "pausing: its current Step, or the answer it waits for, is still to come"
            if facts.pause_requested
            else facts.status.value
        )
        raise LoomError(
            ErrorCode.CONFLICT, f"This Run is not paused; it is {state}. Read it with `get_run` and wait for `paused`."
        )
    if facts.revision != expected_revision:
        raise LoomError(
            ErrorCode.CONFLICT,
            f"This Run is at revision {facts.revision}, not {expected_revision}: it changed since you looked. Read it "
            "again with `get_run`, and resume under a new operationId if you still want to.",
            details={"revision": facts.revision},
        )


def decide_cancel(facts: RunFacts) -> CancelDecision:
    """Cancel any Run that has not ended; a Run of this instance that has is left as it is (R11)."""
    _refuse_historical(facts)
    return CancelDecision.NOTHING if facts.terminal else CancelDecision.NOW


def decide_answer(
    facts: RunFacts, *, pending_action: str | None, action_id: str, answered: Answered | None = None
) -> None:
    """Only the Action that the Run waits for can be answered (H3); whoever is late hears who was first."""
    if answered is not None:
        raise LoomError(
            ErrorCode.CONFLICT,
            f"This Action was answered already, {answered}. Read the Run with `get_run`.",
            details={"answeredBy": answered.by, "answeredAt": answered.at},
        )
    _refuse_terminal(facts)
    if pending_action != action_id:
        raise LoomError(
            ErrorCode.CONFLICT,
            "The Run does not wait for this Action: it was answered, the Run moved on, or there never was one of this "
            "id. Read the Run with `get_run`.",
        )
