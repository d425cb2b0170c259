"""Agent Steps that a model of the service carries out, as the engine sees them (R12, R13, B8, B9).

The Run stays `running` under its worker's lease.  Everything here works on a :class:`Held` Run that
:func:`hold_leased` found, in the caller's transaction.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from apps.core.database import database_time_after
from apps.ledger.services.events import NewEvent
from apps.looms.loaded import LoadedLoom
from apps.runs.domain.facts import RunError
from apps.runs.domain.statuses import AttemptStatus, EventType
from apps.runs.services import changes
from apps.runs.services.agent_steps import Held
from apps.runs.services.leasing import DEADLINE_GRACE_SECONDS


def open_model_call(
    held: Held,
    *,
    call_id: uuid.UUID,
    agent_id: str,
    timeout_seconds: float | None,
    about: Mapping[str, str],
    now: dt.datetime,
) -> None:
    """The Step begins, and its time; ``about`` says with which model and program."""
    run = held._row
    run.policy = replace(changes.policy_on(run), timeout_seconds=timeout_seconds).to_json()
    run.deadline_at = None if timeout_seconds is None else database_time_after(timeout_seconds + DEADLINE_GRACE_SECONDS)
    where = {"stage": run.stage, "step": run.step, "visit": run.visit}
    event = NewEvent(EventType.AGENT_CALL_OPENED, {**where, "callId": str(call_id), "agentId": agent_id, **about})
    changes.save(run, now=now, events=[event])


def require_no_repetition(held: Held) -> bool:
    """A request is about to go out: from now on a lost worker ends the Run, and nothing is sent again (R13, B9).

    Returns whether it is the Step's first one."""
    run = held._row
    policy = changes.policy_on(run)
    if policy.model_asked:
        return False
    run.policy = replace(policy, interruption_limit=1, model_asked=True).to_json()
    run.save(update_fields=["policy"])
    return True


def note_usage(held: Held, usage: Mapping[str, int], *, now: dt.datetime) -> dict[str, int]:
    """The running Step has used ``usage`` so far; what is new of it.  Noting the same again changes nothing."""
    run = held._row
    before = run.step_usage or {}
    added = {name: number - before.get(name, 0) for name, number in usage.items()}
    if any(added.values()):
        whole = run.usage or {}
        run.usage = {name: whole.get(name, 0) + number for name, number in added.items()}
        run.step_usage = dict(usage)
        changes.save(run, now=now, events=[])
    return added


def complete_model_step(
    held: Held,
    loom: LoadedLoom,
    *,
    call_id: uuid.UUID,
    result: Any,
    outcome: str,
    reads: Sequence[dict[str, Any]],
    now: dt.datetime,
    instance_id: uuid.UUID,
) -> None:
    """Save the model's checked output as the Step's result, and route it or pause."""
    run = held._row
    closed = _closed(call_id, "completed", result=result)
    completed = changes.complete_step(
        run, loom.graph, outcome, value=result, now=now, instance_id=instance_id, reads=reads
    )
    changes.save(run, now=now, events=[closed, *completed])


def fail_model_step(
    held: Held,
    error: RunError,
    *,
    call_id: uuid.UUID,
    reads: Sequence[dict[str, Any]],
    now: dt.datetime,
    instance_id: uuid.UUID,
) -> None:
    """End the Run: the model came to no result."""
    run = held._row
    changes.record_attempt(run, AttemptStatus.FAILED, now=now, error=changes.last_error(run, error), reads=reads)
    failed = changes.fail(run, error, now=now, instance_id=instance_id)
    changes.save(run, now=now, events=[_closed(call_id, "failed"), failed])


def _closed(call_id: uuid.UUID, closed_as: str, **data: Any) -> NewEvent:
    return NewEvent(EventType.AGENT_CALL_CLOSED, {"callId": str(call_id), "closedAs": closed_as, **data})
