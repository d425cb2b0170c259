"""Agent Steps as the engine sees them: handed to an executor, waited for, and landed (R2, R12, R13, R15).

Whoever carries an Agent Step out works on a :class:`Held` Run: its row, locked until the transaction ends.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db import transaction

from apps.core import clock
from apps.core.caller import AgentExecutor
from apps.core.database import for_update, lock_first
from apps.core.errors import LoomError
from apps.ledger.services.events import NewEvent
from apps.looms.domain.graph import AgentStepSpec
from apps.looms.loaded import LoadedLoom
from apps.runs.domain.advancing import step_of
from apps.runs.domain.facts import Position, RunError
from apps.runs.domain.statuses import AttemptStatus, EventType, RunErrorCode, RunStatus, SegmentKind
from apps.runs.models import Run, State
from apps.runs.services import changes
from apps.runs.services.executors import executor_for
from apps.runs.services.leasing import Leased, pause_for


@dataclass(frozen=True)
class Held:
    """A Run at an Agent Step, its row locked until the transaction ends."""

    _row: Run

    @property
    def run_id(self) -> uuid.UUID:
        return self._row.pk

    @property
    def project_id(self) -> uuid.UUID:
        return self._row.project_id

    @property
    def position(self) -> Position:
        return changes.position_of(self._row)

    @property
    def input(self) -> Any:
        return self._row.input

    @property
    def state(self) -> Any:
        """The Stage's State, as JSON."""
        return self._row.state.data if self._row.state is not None else None

    def moment(self, now: dt.datetime) -> dt.datetime:
        """``now``, but never before what the Run has seen already."""
        return changes.moment(self._row, now)


def is_for_an_agent(leased: Leased) -> bool:
    """Whether the leased segment is an Agent Step, not Code."""
    spec = step_of(leased.loom.graph, leased.position)
    return leased.due.kind is SegmentKind.STEP and isinstance(spec, AgentStepSpec)


def open_agent_step(leased: Leased, *, now: dt.datetime) -> None:
    """Let the Run's executor open the call; without one that is there, the Run is paused and says why."""
    try:
        executor_for(leased.agent_executor).open_call(leased, now=now)
    except LoomError as unavailable:
        error = RunError(RunErrorCode.MODEL_REQUEST_FAILED, unavailable.message)
        with transaction.atomic():
            run = for_update(_leased_rows(leased)).first()
            if run is not None:
                run.fence += 1
                pause_for(run, error, now=now)


def _leased_rows(leased: Leased) -> Any:
    return Run.objects.filter(pk=leased.run_id, fence=leased.fence, step_seq=leased.step_seq, status=RunStatus.RUNNING)


def hold_leased(leased: Leased) -> Held | None:
    """The Run under its lease; ``None`` when the lease has passed on."""
    run = lock_first(_leased_rows(leased))
    return None if run is None else Held(run)


def is_still_leased(leased: Leased) -> bool:
    """Whether the lease is the worker's still; nothing is locked."""
    return bool(_leased_rows(leased).exists())


def hold_waiting(run_id: uuid.UUID) -> Held | None:
    """The Run while it waits for an agent; ``None`` when it does not, or is gone."""
    run = lock_first(Run.objects.select_related("state").filter(pk=run_id))
    return Held(run) if run is not None and run.pending_agent_call is not None else None


def wait_for_agent(held: Held, *, call_id: uuid.UUID, agent_id: str, now: dt.datetime) -> None:
    """Park the Run: it waits for an external agent and holds no worker (R2)."""
    run = held._row
    at = changes.moment(run, now)
    run.status = RunStatus.WAITING
    run.attempts = 0
    run.due_at = None
    run.fence += 1
    changes.release_lease(run)
    run.pending_agent_call = {
        "id": str(call_id),
        "agentId": agent_id,
        "phase": "available",
        "createdAt": clock.to_wire(at),
    }
    where = {"stage": run.stage, "step": run.step, "visit": run.visit}
    event = NewEvent(EventType.AGENT_CALL_OPENED, {**where, "callId": str(call_id), "agentId": agent_id})
    changes.save(run, now=now, events=[event])


def claimed(held: Held, *, principal: str, now: dt.datetime) -> None:
    """The call has an owner: from now on its Step is under way."""
    run = held._row
    assert run.pending_agent_call is not None
    run.pending_agent_call = {**run.pending_agent_call, "phase": "claimed"}
    run.segment_started_at = changes.moment(run, now)
    data = {"callId": run.pending_agent_call["id"], "claimedBy": principal}
    changes.save(run, now=now, events=[NewEvent(EventType.AGENT_CALL_CLAIMED, data)])


def note(held: Held, event: NewEvent, *, now: dt.datetime, state: Any = None, state_changed: bool = False) -> None:
    """Store what a Tool call did, its State with it (A4)."""
    run = held._row
    if state_changed:
        run.state = State.objects.create(run=run, stage=run.stage, data=state, created_at=changes.moment(run, now))
    changes.save(run, now=now, events=[event])


def _close(run: Run, closed_as: str, **data: Any) -> NewEvent:
    assert run.pending_agent_call is not None
    call_id = run.pending_agent_call["id"]
    run.pending_agent_call = None
    return NewEvent(EventType.AGENT_CALL_CLOSED, {"callId": call_id, "closedAs": closed_as, **data})


def complete_agent_step(
    held: Held,
    loom: LoadedLoom,
    *,
    result: Any,
    outcome: str,
    reads: Sequence[dict[str, Any]],
    events: Sequence[NewEvent],
    now: dt.datetime,
    instance_id: uuid.UUID,
) -> None:
    """Save the agent's checked output as the Step's result, and route it or pause (A8)."""
    run = held._row
    closed = _close(run, "completed", result=result)
    completed = changes.complete_step(
        run,
        loom.graph,
        outcome,
        value=result,
        now=now,
        instance_id=instance_id,
        reads=reads,
        events_before=len(events) + 1,
    )
    changes.save(run, now=now, events=[*events, closed, *completed])


def fail_agent_step(
    held: Held,
    error: RunError,
    *,
    closed_as: str,
    events: Sequence[NewEvent],
    now: dt.datetime,
    instance_id: uuid.UUID,
) -> None:
    """End the Run: its agent failed, took too long, or was cut off with its instance (A9, R12, R13)."""
    run = held._row
    closed = _close(run, closed_as)
    interrupted = error.code is RunErrorCode.RUN_INTERRUPTED
    status = AttemptStatus.INDETERMINATE if interrupted else AttemptStatus.FAILED
    changes.record_attempt(run, status, now=now, error=changes.last_error(run, error))
    failed = changes.fail(run, error, now=now, instance_id=instance_id)
    changes.save(run, now=now, events=[*events, closed, failed])


def cancel_agent_step(run: Run, *, now: dt.datetime) -> list[NewEvent]:
    """The locked Run is being cancelled: whoever works at its Agent Step loses it (R11)."""
    if run.pending_agent_call is None:
        return []
    events = executor_for(AgentExecutor(run.agent_executor)).cancel_call(run.pk, now=changes.moment(run, now))
    if run.pending_agent_call["phase"] == "claimed":
        changes.record_attempt(run, AttemptStatus.CANCELLED, now=now)
    return [*events, _close(run, "cancelled")]
