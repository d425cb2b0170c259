"""How a Run spent its time, read in three statements however long it is."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Collection

from apps.core.errors import not_found
from apps.ledger.selectors.events import latest_of_types
from apps.runs.domain.facts import Position
from apps.runs.domain.statuses import AttemptStatus, EventType, RunStatus, SegmentKind
from apps.runs.domain.timing import TURNS, Standing, TimedAttempt, Timeline, Turn, spans_of
from apps.runs.models import Run, StepAttempt

#: A Run may have had more attempts; the latest are what anyone asks about.
MOST_ATTEMPTS = 10_000

_RUN = ("status", "stage", "step", "visit", "attempts", "step_seq", "queued_at", "segment_started_at")
_ATTEMPT = (
    "step_seq", "stage", "step", "visit", "kind", "attempt", "status", "outcome", "error", "queued_at", "started_at",
    "ended_at",
)  # fmt: skip


def timeline_of(*, run_id: uuid.UUID, project_ids: Collection[uuid.UUID], now: dt.datetime) -> Timeline:
    """The Run's time up to ``now``; ``NOT_FOUND`` when it is in none of these Projects (E5)."""
    run = Run.objects.filter(pk=run_id, project_id__in=project_ids).values_list(*_RUN).first()
    if run is None:
        raise not_found("Run", str(run_id))
    status, stage, step, visit, attempts, step_seq, queued_at, started_at = run
    rows = StepAttempt.objects.filter(run_id=run_id).order_by("-step_seq").values_list(*_ATTEMPT)
    timed = [_timed(*row) for row in reversed(rows[:MOST_ATTEMPTS])]
    turns = [
        Turn(EventType(type_), at, data)
        for type_, at, data in latest_of_types(run_id=run_id, types=[t.value for t in TURNS], limit=2 * MOST_ATTEMPTS)
    ]
    standing = Standing(RunStatus(status), Position(stage, step, visit), attempts + 1, queued_at, started_at)
    return Timeline(
        spans=tuple(spans_of(timed, turns, standing, now=now)),
        attempts=len(timed),
        attempts_in_all=max(step_seq, len(timed)),
        status=standing.status,
    )


def _timed(
    step_seq: int,
    stage: str,
    step: str,
    visit: int,
    kind: str,
    attempt: int,
    status: str,
    outcome: str | None,
    error: dict[str, str] | None,
    queued_at: dt.datetime | None,
    started_at: dt.datetime | None,
    ended_at: dt.datetime,
) -> TimedAttempt:
    return TimedAttempt(
        step_seq=step_seq,
        position=Position(stage, step, visit),
        initializes=kind == SegmentKind.INITIALIZE,
        attempt=attempt,
        status=AttemptStatus(status),
        result=error["code"] if error else outcome or "",
        queued_at=queued_at,
        started_at=started_at,
        ended_at=ended_at,
    )
