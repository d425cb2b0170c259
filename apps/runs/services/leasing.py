"""Taking, renewing and giving up a worker's hold on a Run (the fence; R6, R13, R14)."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from django.db import transaction

from apps.access.services.credentials import is_live
from apps.core import conf
from apps.core.caller import AgentExecutor
from apps.core.database import database_now, database_time_after, for_update, lock_first
from apps.core.errors import LoomError
from apps.core.failpoints import Failpoint, reach
from apps.ledger.selectors.instances import hold_current
from apps.ledger.services.events import NewEvent
from apps.looms.loaded import LoadedLoom
from apps.looms.services.releases import load_release
from apps.runs.domain.facts import Due, Position, RunError
from apps.runs.domain.statuses import EventType, RunErrorCode, RunStatus
from apps.runs.models import Run
from apps.runs.services import changes

#: A Step past its timeout is ended by its worker; the sweep steps in this many seconds later.
DEADLINE_GRACE_SECONDS = 5


class InstanceEnded(Exception):
    """The service was started anew: this worker belongs to the past and must stop."""


@dataclass(frozen=True, slots=True)
class Leased:
    """One segment of one Run in a worker's hands: all it needs to run, and the fence it lands under."""

    run_id: uuid.UUID
    project_id: uuid.UUID
    instance_id: uuid.UUID
    owner: str
    fence: int
    step_seq: int
    loom: LoadedLoom
    agent_executor: AgentExecutor
    position: Position
    due: Due
    input: Any
    state: Any
    previous: dict[str, Any] | None
    answer: dict[str, Any] | None
    segment_time: dt.datetime


def take_lease(*, owner: str, instance_id: uuid.UUID, now: dt.datetime) -> Leased | None:
    """The next Run whose segment is due, leased; ``None`` when nothing is due.

    Raises :class:`InstanceEnded` when ``instance_id`` is not the current instance any more.
    """
    while True:
        with transaction.atomic():
            if not hold_current(instance_id):
                raise InstanceEnded
            ready = Run.objects.filter(status=RunStatus.QUEUED, due_at__lte=database_now())
            rows = ready.select_related("credential", "state").order_by("due_at")
            run = lock_first(rows, skip_locked=True)
            if run is None:
                return None
            if run.credential is not None and not is_live(run.credential, now):
                forbid(run, now=now)
                continue
            _dispatch(run, owner=owner, now=now)
        reach(Failpoint.AFTER_CLAIM)
        try:
            loom = load_release(run.release_digest)
        except LoomError as unavailable:
            _pause_unavailable(run.pk, run.fence, unavailable.message, now=now)
            continue
        return leased_of(run, loom, instance_id=instance_id)


def leased_of(run: Run, loom: LoadedLoom, *, instance_id: uuid.UUID) -> Leased:
    """The segment that a freshly begun row stands for."""
    assert run.segment_time is not None
    return Leased(
        run_id=run.pk,
        project_id=run.project_id,
        instance_id=instance_id,
        owner=run.lease_owner,
        fence=run.fence,
        step_seq=run.step_seq,
        loom=loom,
        agent_executor=AgentExecutor(run.agent_executor),
        position=changes.position_of(run),
        due=changes.due_of(run),
        input=run.input,
        state=run.state.data if run.state is not None else None,
        previous=run.previous,
        answer=run.answer,
        segment_time=run.segment_time,
    )


def take_up(leased: Leased) -> Leased | None:
    """The segment that follows ``leased`` under the same lease, where its landing was not heard of.

    Only its holder moves the step sequence under a fence, so what stands there is the holder's to run.
    """
    run = (
        Run.objects.select_related("state")
        .filter(
            pk=leased.run_id,
            fence=leased.fence,
            step_seq=leased.step_seq + 1,
            status=RunStatus.RUNNING,
            lease_expires_at__gt=database_now(),
        )
        .first()
    )
    return None if run is None else leased_of(run, leased.loom, instance_id=leased.instance_id)


def begin_segment(run: Run, *, now: dt.datetime) -> None:
    """Mark the due segment as begun: whoever holds the lease runs it at once."""
    timeout = changes.policy_on(run).timeout_seconds
    run.lease_expires_at = database_time_after(conf.settings().lease_seconds)
    run.deadline_at = None if timeout is None else database_time_after(timeout + DEADLINE_GRACE_SECONDS)
    run.segment_started_at = changes.moment(run, now)
    run.segment_time = run.segment_time or run.segment_started_at


def _dispatch(run: Run, *, owner: str, now: dt.datetime) -> None:
    run.status = RunStatus.RUNNING
    run.lease_owner = owner
    run.fence += 1
    run.started_at = run.started_at or changes.moment(run, now)
    begin_segment(run, now=now)
    where = {"stage": run.stage, "step": run.step, "visit": run.visit, "attempt": run.attempts + 1}
    changes.save(run, now=now, events=[NewEvent(EventType.RUN_DISPATCHED, where)])


def forbid(run: Run, *, now: dt.datetime) -> None:
    """Pause a Run whose credential is revoked or expired (R14); it was not begun."""
    error = RunError(
        RunErrorCode.FORBIDDEN,
        "The credential of this Run was revoked or has expired. Resume it with another credential to go on.",
    )
    pause_for(run, error, now=now)


def pause_for(run: Run, error: RunError, *, now: dt.datetime) -> None:
    """Pause a Run for a reason of the service's own, saying which."""
    run.last_error = changes.last_error(run, error)
    changes.rest(run)
    changes.save(run, now=now, events=[NewEvent(EventType.RUN_PAUSED, {"error": run.last_error})])


def _pause_unavailable(run_id: uuid.UUID, fence: int, message: str, *, now: dt.datetime) -> None:
    with transaction.atomic():
        run = for_update(Run.objects.filter(pk=run_id, fence=fence, status=RunStatus.RUNNING)).first()
        if run is not None:
            run.fence += 1
            pause_for(run, RunError(RunErrorCode.RELEASE_UNAVAILABLE, message), now=now)


def renew_leases(owners: Collection[str]) -> int:
    """Keep the leases of live owners; an expired one is not brought back.  Returns how many were kept."""
    with transaction.atomic():
        held = Run.objects.filter(
            status=RunStatus.RUNNING, lease_owner__in=list(owners), lease_expires_at__gt=database_now()
        )
        # In the order in which the opening of an instance locks them: an UPDATE alone has none.
        ids = list(for_update(held.order_by("id")).values_list("id", flat=True))
        return Run.objects.filter(id__in=ids).update(
            lease_expires_at=database_time_after(conf.settings().lease_seconds)
        )
