"""The sweep: finds what nobody rang for, and says what became of what was lost.

Any number may run at once: rows are taken with SKIP LOCKED, and each part commits by itself, so one
that dies half-way holds up nothing (FR-A13, F24).
"""

from __future__ import annotations

import datetime as dt
import functools
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from django.db import transaction

from apps.core import conf
from apps.core.database import database_now
from apps.ledger.selectors.instances import current_instance
from apps.ledger.services.events import remove_events
from apps.ledger.services.operations import settle_stale_receipts
from apps.runs.domain.statuses import RunStatus
from apps.runs.models import Action, Run, State, StepAttempt
from apps.runs.queue import ring
from apps.runs.services.interrupting import end_expired_leases, end_overdue_segments

logger = logging.getLogger("loomsvc.sweep")

#: One ring wakes one worker; this many are enough to wake all of a big pool.
_MOST_RINGS = 16
_RETENTION_BATCH = 200


@dataclass(frozen=True, slots=True)
class Swept:
    """What one sweep found."""

    interrupted: int = 0
    timed_out: int = 0
    settled: int = 0
    rung: int = 0
    removed: int = 0
    #: By higher apps' parts.
    others: int = 0


class Part(Protocol):
    """What a higher app does at each sweep; returns how much there was to do."""

    def __call__(self, *, now: dt.datetime) -> int: ...


_parts: dict[str, Part] = {}


def also_sweep(what: str, part: Part) -> None:
    """Register a part of the sweep; called when Django starts."""
    _parts[what] = part


def sweep(*, now: dt.datetime) -> Swept:
    """Do everything that is overdue; a part that fails is logged and keeps no other from its work."""
    return Swept(
        interrupted=_attempt("ending expired leases", lambda: end_expired_leases(now=now)),
        timed_out=_attempt("ending overdue Steps", lambda: end_overdue_segments(now=now)),
        settled=_attempt("settling receipts", lambda: settle_stale_receipts(now=now)),
        rung=_attempt("ringing", _ring_for_ready),
        removed=_attempt("retention", lambda: remove_old_runs(now=now)),
        others=sum(_attempt(what, functools.partial(part, now=now)) for what, part in _parts.items()),
    )


def _attempt(what: str, part: Callable[[], int]) -> int:
    try:
        return part()
    except Exception as error:
        logger.warning("%s failed (%s: %s)", what, type(error).__name__, error)
        return 0


def _ring_for_ready() -> int:
    ready = Run.objects.filter(status=RunStatus.QUEUED, due_at__lte=database_now())
    number = len(ready.order_by("due_at").values_list("id", flat=True)[:_MOST_RINGS])
    for _ in range(number):
        ring()
    return number


def remove_old_runs(*, now: dt.datetime) -> int:
    """Remove historical Runs past the set age with their events and attempts, and nothing else (R17)."""
    days = conf.settings().retention_days
    if not days:
        return 0
    current = current_instance()
    # Nothing of the current instance is looked at, however long it lasts; clocks may differ by less than a day.
    before = min(now - dt.timedelta(days=days), current.opened_at + dt.timedelta(days=1))
    old = (
        Run.objects.filter(finished_at__lt=before)
        .exclude(finished_instance_id=current.id)
        .order_by("finished_at")
        .values_list("id", flat=True)[:_RETENTION_BATCH]
    )
    ids = list(old)
    if ids:
        with transaction.atomic():
            Run.objects.filter(id__in=ids).update(pending_action=None, state=None)
            StepAttempt.objects.filter(run_id__in=ids).delete()
            State.objects.filter(run_id__in=ids).delete()
            Action.objects.filter(run_id__in=ids).delete()
            remove_events(run_ids=ids)
            Run.objects.filter(id__in=ids).delete()
        logger.info("removed %d historical Runs", len(ids))
    return len(ids)
