"""Saying honestly what became of a segment whose worker was lost (R13)."""

from __future__ import annotations

import datetime as dt
import logging
import uuid

from django.db import transaction

from apps.core.database import database_now, for_update
from apps.core.failpoints import Failpoint, reach
from apps.ledger.selectors.instances import current_instance
from apps.ledger.services.events import NewEvent
from apps.looms.messages import error_names
from apps.runs.domain.advancing import after_interruption
from apps.runs.domain.facts import RunError
from apps.runs.domain.statuses import AttemptStatus, EventType, RunErrorCode, RunStatus
from apps.runs.models import Run
from apps.runs.services import changes

logger = logging.getLogger("loomsvc.runs")


def interrupt(run: Run, *, now: dt.datetime, instance_id: uuid.UUID) -> None:
    """Move the fence under a locked, running Run; its segment is due again or the Run fails."""
    run.fence += 1
    error = after_interruption(changes.policy_on(run), changes.due_of(run))
    shown = changes.last_error(run, error) if error else None
    changes.record_attempt(run, AttemptStatus.INDETERMINATE, now=now, error=shown)
    if error is not None:
        events = [changes.fail(run, error, now=now, instance_id=instance_id)]
    else:
        where = {"stage": run.stage, "step": run.step, "visit": run.visit, "attempt": run.attempts + 1}
        run.attempts += 1
        changes.queue(run, now=now)
        events = [NewEvent(EventType.STEP_INTERRUPTED, where)]
    changes.save(run, now=now, events=events)
    verdict = "its Run failed (RUN_INTERRUPTED)" if error else "it is due again"
    logger.warning("Run %s: %s/%s was cut off with its worker; %s", run.pk, run.stage, run.step, verdict)


def interrupt_in_flight(*, ended: uuid.UUID, now: dt.datetime) -> None:
    """A new instance is being opened: whatever a worker of the ended one held is interrupted.

    Runs that this fails ended with the instance that had them, so they are historical at once (R4).
    """
    for run in for_update(Run.objects.filter(status=RunStatus.RUNNING).order_by("id")):
        interrupt(run, now=now, instance_id=ended)


def end_expired_leases(*, now: dt.datetime, limit: int = 100) -> int:
    """Interrupt Runs whose lease nobody renewed.  Any number of sweeps may do this at once."""
    return _end(now=now, limit=limit, overdue=False)


def end_overdue_segments(*, now: dt.datetime, limit: int = 100) -> int:
    """Time out segments that their own worker failed to end: it may hold the interpreter (R12)."""
    return _end(now=now, limit=limit, overdue=True)


def _end(*, now: dt.datetime, limit: int, overdue: bool) -> int:
    running = Run.objects.filter(status=RunStatus.RUNNING)
    due = (
        running.filter(deadline_at__lt=database_now())
        if overdue
        else running.filter(lease_expires_at__lt=database_now())
    )
    if not due.exists():
        return 0
    with transaction.atomic():
        instance_id = current_instance().id
        runs = list(for_update(due.order_by("id")[:limit], skip_locked=True))
        for run in runs:
            if overdue:
                _time_out(run, now=now, instance_id=instance_id)
            else:
                interrupt(run, now=now, instance_id=instance_id)
        reach(Failpoint.IN_SWEEP)
    return len(runs)


def _time_out(run: Run, *, now: dt.datetime, instance_id: uuid.UUID) -> None:
    run.fence += 1
    seconds = changes.policy_on(run).timeout_seconds
    error = RunError(RunErrorCode.STEP_TIMEOUT, f"The Step did not end within {seconds:g} s.")
    event = changes.fail_segment(
        run, error, error_names=error_names(TimeoutError, ""), now=now, instance_id=instance_id
    )
    changes.save(run, now=now, events=[event])
