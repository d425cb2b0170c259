"""Who works, and what is due, for whoever looks after the service; bounded whatever there is."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Collection
from dataclasses import dataclass

from apps.core.database import database_now, holds
from apps.runs.domain.statuses import RunStatus
from apps.runs.models import Run


@dataclass(frozen=True, slots=True)
class HeldRun:
    """A Run that a worker holds; ``is_silent``: its lease ran out and nobody renewed it."""

    worker: str
    run_id: uuid.UUID
    loom_name: str
    stage: str
    step: str
    since: dt.datetime | None
    lease_until: dt.datetime | None
    is_silent: bool


@dataclass(frozen=True, slots=True)
class Queue:
    """What is due: the oldest first, at most a page of it; ``later`` is what is due at a later time."""

    due: list[tuple[uuid.UUID, str, str, str, dt.datetime | None]]
    later: list[tuple[uuid.UUID, str, str, str, dt.datetime | None]]


def held_runs(*, project_ids: Collection[uuid.UUID], limit: int) -> list[HeldRun]:
    """Runs under a lease, the one that ends first at the top."""
    rows = Run.objects.filter(status=RunStatus.RUNNING, project_id__in=project_ids).order_by("lease_expires_at")
    return [
        HeldRun(*row)
        for row in rows.annotate(is_silent=holds(lease_expires_at__lt=database_now())).values_list(
            "lease_owner", "id", "loom_name", "stage", "step", "segment_started_at", "lease_expires_at", "is_silent"
        )[:limit]
    ]


def queue_of(*, project_ids: Collection[uuid.UUID], limit: int) -> Queue:
    """Two statements over the index of what is ready."""
    rows = Run.objects.filter(status=RunStatus.QUEUED, project_id__in=project_ids).order_by("due_at")
    fields = ("id", "loom_name", "stage", "step", "due_at")
    return Queue(
        due=list(rows.filter(due_at__lte=database_now()).values_list(*fields)[:limit]),
        later=list(rows.filter(due_at__gt=database_now()).values_list(*fields)[:limit]),
    )
