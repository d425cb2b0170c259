"""How a Loom's latest Runs went, read from a window of bounded size (P9)."""

from __future__ import annotations

import datetime as dt
import uuid
from dataclasses import dataclass

from apps.runs.domain.figures import Ending, StepTimes, TimedStep, endings, step_times
from apps.runs.domain.statuses import AttemptStatus, SegmentKind
from apps.runs.models import Run, StepAttempt

#: The latest Runs whose endings are counted, and those of them whose attempts are measured.
MOST_RUNS, MOST_MEASURED, MOST_ATTEMPTS = 1000, 100, 5000
_NOT_LANDED = frozenset({AttemptStatus.FAILED.value, AttemptStatus.INDETERMINATE.value})


@dataclass(frozen=True, slots=True)
class LoomFigures:
    """``endings`` are of the latest ``runs`` Runs (all of them unless ``is_window``), ``steps`` of the attempts
    of the latest ``measured`` ones."""

    endings: list[Ending]
    steps: list[StepTimes]
    runs: int
    measured: int
    attempts: int
    is_window: bool


def figures_of_loom(*, project_id: uuid.UUID, loom_name: str) -> LoomFigures:
    """Two statements, however many Runs there are."""
    rows = Run.objects.filter(project_id=project_id, loom_name=loom_name).order_by("-id")
    latest = list(rows.values_list("id", "status", "outcome")[: MOST_RUNS + 1])
    shown = latest[:MOST_RUNS]
    measured = [run_id for run_id, _, _ in shown[:MOST_MEASURED]]
    attempts = StepAttempt.objects.filter(run_id__in=measured, kind__in=[SegmentKind.STEP, SegmentKind.CONTINUATION])
    timed = [
        _timed(*row)
        for row in attempts.order_by("-run_id", "step_seq").values_list(
            "stage", "step", "status", "queued_at", "started_at", "ended_at"
        )[:MOST_ATTEMPTS]
    ]
    return LoomFigures(
        endings=endings((status, outcome) for _, status, outcome in shown),
        steps=step_times(timed),
        runs=len(shown),
        measured=len(measured),
        attempts=len(timed),
        is_window=len(latest) > MOST_RUNS,
    )


def _timed(
    stage: str, step: str, status: str, queued_at: dt.datetime | None, started_at: dt.datetime | None, end: dt.datetime
) -> TimedStep:
    begun = started_at or end
    return TimedStep(
        stage=stage,
        step=step,
        queued=max(0.0, (begun - queued_at).total_seconds()) if queued_at else 0.0,
        ran=max(0.0, (end - begun).total_seconds()),
        is_failed=status in _NOT_LANDED,
    )
