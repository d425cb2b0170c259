"""What decisions know of a Run: plain values, taken from its locked row."""

from __future__ import annotations

from dataclasses import dataclass, field

from apps.runs.domain.statuses import TERMINAL, RunErrorCode, RunStatus, SegmentKind


@dataclass(frozen=True, slots=True)
class Position:
    """The Step to run or running (``cursor``), and which visit of it."""

    stage: str
    step: str
    visit: int


@dataclass(frozen=True, slots=True)
class Due:
    """The segment that is due or running at a position.

    ``attempts`` counts those already begun and ended; ``continuation`` names the function that goes
    on after a wait.
    """

    kind: SegmentKind
    attempts: int = 0
    segment: int = 0
    continuation: str | None = None


@dataclass(frozen=True, slots=True)
class RunFacts:
    """Everything an Operation's admission looks at."""

    status: RunStatus
    revision: int
    pause_requested: bool
    historical: bool
    position: Position
    due: Due
    saved_outcome: str | None
    visits: dict[str, int] = field(default_factory=dict)

    @property
    def terminal(self) -> bool:
        return self.status in TERMINAL

    @property
    def between_steps(self) -> bool:
        """Queued with nothing begun: no continuation and no retry is due (R9)."""
        return (
            self.status is RunStatus.QUEUED and self.due.attempts == 0 and self.due.kind is not SegmentKind.CONTINUATION
        )


@dataclass(frozen=True, slots=True)
class RunError:
    """Why a Run failed or was paused by the service."""

    code: RunErrorCode
    message: str
