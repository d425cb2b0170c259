"""Runs that need somebody: what waits for a person, what is stuck, and whose workers went silent.

Each list is one statement over an index that holds open Runs only, or a bounded stretch of ids.
"""

from __future__ import annotations

import datetime as dt
import re
import uuid
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet

from apps.core.database import database_now, database_time_after
from apps.core.ids import first_id_at
from apps.runs.domain.statuses import RunStatus
from apps.runs.models import Run

#: A Run that has been due for this long, and that no worker took, is stuck.
OVERDUE_SECONDS = 60


@dataclass(frozen=True, slots=True)
class NeedyRun:
    """A Run with what an operator wants to know first; ``since`` is when it came to stand like this."""

    run_id: uuid.UUID
    project_id: uuid.UUID
    loom_name: str
    stage: str
    step: str
    status: str
    since: dt.datetime
    error: dict[str, Any] | None = None
    worker: str = ""
    kind: str = ""
    asked: str = ""
    only_person: bool = False


def _asked(kind: str, request: Any) -> str:
    """What a person is asked, on one line: of a text the first line that asks, else the first below its heading."""
    text = request["context"] if kind == "confirmation" else request[0]["question"]
    lines = [line.strip() for line in str(text).splitlines() if line.strip()]
    below = [line for line in lines if not line.startswith("#")]
    chosen = next((line for line in below if line.endswith("?")), None) or next(iter([*below, *lines]), "")
    return re.sub(r"^#+ *|\*\*|`", "", chosen)[:200]


def _needy(run: Run, since: dt.datetime | None, **more: Any) -> NeedyRun:
    return NeedyRun(
        run_id=run.pk,
        project_id=run.project_id,
        loom_name=run.loom_name,
        stage=run.stage,
        step=run.step,
        status=run.status,
        since=since or run.updated_at,
        error=run.last_error,
        worker=run.lease_owner,
        **more,
    )


#: What :func:`_needy` looks at and what the lists go by; other values may be large, and the page follows along.
_SHOWN = (
    "project_id", "loom_name", "stage", "step", "status", "updated_at", "last_error", "lease_owner",
    "lease_expires_at", "due_at", "finished_at",
)  # fmt: skip
_SHOWN_OF_ACTION = tuple(f"pending_action__{name}" for name in ("kind", "request", "only_person", "created_at"))


def _in(project_ids: Collection[uuid.UUID], status: RunStatus) -> QuerySet[Run]:
    return Run.objects.only(*_SHOWN).filter(project_id__in=project_ids, status=status)


def waiting_for_people(*, project_ids: Collection[uuid.UUID], limit: int) -> list[NeedyRun]:
    """Runs with an open question or confirmation, the longest waiting Runs first."""
    rows = _in(project_ids, RunStatus.WAITING).filter(pending_action__isnull=False).select_related("pending_action")
    found = []
    for run in rows.only(*_SHOWN, "pending_action", *_SHOWN_OF_ACTION).order_by("id")[:limit]:
        action = run.pending_action
        assert action is not None
        asked = _asked(action.kind, action.request)
        found.append(_needy(run, action.created_at, kind=action.kind, asked=asked, only_person=action.only_person))
    return sorted(found, key=lambda needy: needy.since)


def paused_by_the_service(*, project_ids: Collection[uuid.UUID], limit: int) -> list[NeedyRun]:
    """Runs that rest because something is wrong, not because somebody asked for it."""
    rows = _in(project_ids, RunStatus.PAUSED).filter(last_error__isnull=False)
    return [_needy(run, None) for run in rows.order_by("id")[:limit]]


def left_by_workers(*, project_ids: Collection[uuid.UUID], limit: int) -> list[NeedyRun]:
    """Running Runs whose worker stopped renewing its lease, and which no sweep has ended yet."""
    rows = _in(project_ids, RunStatus.RUNNING).filter(lease_expires_at__lt=database_now())
    return [_needy(run, run.lease_expires_at) for run in rows.order_by("lease_expires_at")[:limit]]


def taken_by_nobody(*, project_ids: Collection[uuid.UUID], limit: int) -> list[NeedyRun]:
    """Runs that have been due for :data:`OVERDUE_SECONDS`, the longest due first."""
    rows = _in(project_ids, RunStatus.QUEUED).filter(due_at__lt=database_time_after(-OVERDUE_SECONDS))
    return [_needy(run, run.due_at) for run in rows.order_by("due_at")[:limit]]


def failed_since(*, project_ids: Collection[uuid.UUID], since: dt.datetime, limit: int) -> list[NeedyRun]:
    """Runs admitted since then that have failed, newest first; an interrupted one has ``RUN_INTERRUPTED``."""
    rows = _in(project_ids, RunStatus.FAILED).filter(id__gte=first_id_at(since)).order_by("-id")
    return [_needy(run, run.finished_at) for run in rows[:limit]]
