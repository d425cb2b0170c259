"""Decisions about a background agent's session: pure, and closed lists (B2, B3, B9)."""

from __future__ import annotations

import enum


class State(enum.StrEnum):
    """Where a session stands."""

    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


OPEN = frozenset({State.QUEUED, State.RUNNING})

#: A worker lost before any model request went out lets the session run again, this many times in all.
MOST_ATTEMPTS = 3


class AfterLoss(enum.Enum):
    """What becomes of a session whose worker was lost."""

    AGAIN = "again"
    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"


def decide_loss(*, called: bool, cancel_requested: bool, attempts: int) -> AfterLoss:
    """``called``: a model request may have gone out, so nothing is sent again (B9)."""
    if called:
        return AfterLoss.INTERRUPTED
    if cancel_requested:
        return AfterLoss.CANCELLED
    return AfterLoss.AGAIN if attempts < MOST_ATTEMPTS else AfterLoss.INTERRUPTED


class OnCancel(enum.Enum):
    """What a cancel does now."""

    END = "end"
    REQUEST = "request"
    NOTHING = "nothing"


def decide_cancel(state: State) -> OnCancel:
    """A queued session ends at once, a running one at its next boundary, an ended one stays as it is (B9)."""
    if state is State.QUEUED:
        return OnCancel.END
    return OnCancel.REQUEST if state is State.RUNNING else OnCancel.NOTHING


def decide_landing(ended: State, *, cancel_requested: bool) -> State | None:
    """How a session ends whose reasoning came to ``ended``: a cancel that was accepted lets nothing succeed.

    ``None``: it was stopped though nobody cancelled it, for a reason of the service's, and ends as if its worker had
    been lost.
    """
    if ended is State.FAILED:
        return State.FAILED
    if cancel_requested:
        return State.CANCELLED
    return None if ended is State.CANCELLED else ended
