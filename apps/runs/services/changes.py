"""Writing decisions onto a locked Run row.  Every stored change of the view passes here (R1, R16)."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Collection, Sequence
from typing import Any

from apps.core.database import database_time_after
from apps.ledger.services.events import NewEvent, append_events
from apps.looms.authoring.log import LogLine
from apps.looms.authoring.staging import ArtifactRead, Read
from apps.looms.domain.graph import LoomGraph
from apps.results.services.landing import Landed
from apps.runs.domain.advancing import Complete, Fail, GoOn, Next, SegmentPolicy, after_failure, follow, policy_of
from apps.runs.domain.boundaries import CompletedStep
from apps.runs.domain.facts import Due, Position, RunError, RunFacts
from apps.runs.domain.statuses import TERMINAL, AttemptStatus, EventType, RunStatus, SegmentKind
from apps.runs.models import Run, StepAttempt
from apps.runs.queue import ring_on_commit
from apps.runs.services.dependencies import keep_dependencies

_IMMUTABLE = {
    "id", "trace_id", "project", "loom_name", "release_digest", "exclusive", "input", "source", "agent_executor",
    "profile", "entry", "origin_operation_id", "origin_instance_id", "restored_from", "mirror_id", "created_at",
}  # fmt: skip
_CHANGING = [field.name for field in Run._meta.concrete_fields if field.name not in _IMMUTABLE]


def facts_of(run: Run, *, current_instance: uuid.UUID) -> RunFacts:
    """What decisions look at."""
    status = RunStatus(run.status)
    return RunFacts(
        status=status,
        revision=run.revision,
        pause_requested=run.pause_requested,
        historical=status in TERMINAL and run.finished_instance_id != current_instance,
        position=position_of(run),
        due=due_of(run),
        saved_outcome=run.saved_result["outcome"] if run.saved_result else None,
        visits=run.visits,
    )


def policy_on(run: Run) -> SegmentPolicy:
    return SegmentPolicy.from_json(run.policy)


def position_of(run: Run) -> Position:
    return Position(run.stage, run.step, run.visit)


def due_of(run: Run) -> Due:
    return Due(SegmentKind(run.due_kind), run.attempts, run.segment, run.continuation or None)


def moment(run: Run, now: dt.datetime) -> dt.datetime:
    """``now``, but never before what the Run has seen already (skewed clocks, F22)."""
    return max(now, run.updated_at)


def save(run: Run, *, now: dt.datetime, events: Sequence[NewEvent]) -> None:
    """Store a changed view with its events, one revision on; wakes a worker for a queued Run."""
    run.updated_at = moment(run, now)
    run.revision += 1
    run.event_seq = append_events(run_id=run.pk, after=run.event_seq, events=events, at=run.updated_at)
    run.save(update_fields=_CHANGING)
    if run.status == RunStatus.QUEUED:
        ring_on_commit(run.ring_after)


def release_lease(run: Run) -> None:
    run.lease_owner = ""
    run.lease_expires_at = None
    run.deadline_at = None
    run.segment_started_at = None


def queue(run: Run, *, now: dt.datetime, after: float = 0.0, until: dt.datetime | None = None) -> None:
    """Make the Run's due segment ready ``after`` some seconds by the database's clock, or ``until`` a time."""
    run.status = RunStatus.QUEUED
    run.dependencies = None
    run.queued_at = moment(run, now)
    run.due_at = database_time_after(after) if until is None else until
    run.ring_after = after if until is None else (until - now).total_seconds()
    release_lease(run)


def place(run: Run, graph: LoomGraph, ahead: GoOn) -> None:
    """Move the cursor: another Step is due from its beginning."""
    run.stage, run.step, run.visit = ahead.position.stage, ahead.position.step, ahead.position.visit
    run.visits = dict(ahead.visits)
    run.due_kind = ahead.due.kind
    run.attempts = 0
    run.segment = 0
    run.continuation = ""
    run.answer = None
    run.segment_time = None
    run.saved_result = None
    run.policy = policy_of(graph, ahead.position, ahead.due.kind).to_json()
    if ahead.enters_stage:
        run.previous = None


def rest(run: Run) -> None:
    """Pause: nothing is due until somebody resumes."""
    run.status = RunStatus.PAUSED
    run.pause_requested = False
    run.due_at = None
    release_lease(run)


def finish(run: Run, status: RunStatus, *, now: dt.datetime, instance_id: uuid.UUID) -> None:
    """End the Run in ``status``."""
    run.status = status
    run.dependencies = None
    run.pause_requested = False
    run.pending_action = None
    run.pending_agent_call = None
    run.due_at = None
    run.finished_at = moment(run, now)
    run.finished_instance_id = instance_id
    release_lease(run)


def fail(run: Run, error: RunError, *, now: dt.datetime, instance_id: uuid.UUID) -> NewEvent:
    """End the Run with ``error``; the event that says so."""
    run.last_error = last_error(run, error)
    finish(run, RunStatus.FAILED, now=now, instance_id=instance_id)
    return NewEvent(EventType.RUN_FAILED, dict(run.last_error))


def fail_segment(
    run: Run,
    error: RunError,
    *,
    error_names: Collection[str],
    now: dt.datetime,
    instance_id: uuid.UUID,
    reads: Sequence[dict[str, Any]] = (),
    log: Sequence[dict[str, str]] = (),
) -> NewEvent:
    """Nothing of the running segment lands; it is due again as its Step declares, or the Run fails (R12)."""
    shown = last_error(run, error)
    later = after_failure(policy_on(run), due_of(run), error_names=error_names)
    record_attempt(run, AttemptStatus.FAILED, now=now, error=shown, reads=reads, log=log)
    if later is None:
        return fail(run, error, now=now, instance_id=instance_id)
    run.attempts += 1
    queue(run, now=now, after=later.seconds)
    return NewEvent(EventType.STEP_RETRIED, {**shown, "afterSeconds": later.seconds})


def last_error(run: Run, error: RunError) -> dict[str, Any]:
    """``lastError`` as R1 has it; ``attempt`` is the one that was running or due."""
    return {
        "code": error.code.value,
        "message": error.message,
        "stage": run.stage,
        "step": run.step,
        "attempt": run.attempts + 1,
    }


def follow_on(run: Run, graph: LoomGraph, ahead: Next, *, now: dt.datetime, instance_id: uuid.UUID) -> list[NewEvent]:
    """Apply where a saved outcome leads: queued, completed or failed."""
    match ahead:
        case GoOn():
            place(run, graph, ahead)
            queue(run, now=now)
            return []
        case Complete(outcome=outcome):
            run.outcome = outcome
            run.saved_result = None
            finish(run, RunStatus.COMPLETED, now=now, instance_id=instance_id)
            return [NewEvent(EventType.RUN_COMPLETED, {"outcome": outcome})]
        case Fail(error=error):
            return [fail(run, error, now=now, instance_id=instance_id)]


def complete_step(
    run: Run,
    graph: LoomGraph,
    outcome: str,
    *,
    value: Any,
    now: dt.datetime,
    instance_id: uuid.UUID,
    reads: Sequence[dict[str, Any]] = (),
    writes: Sequence[dict[str, Any]] = (),
    log: Sequence[dict[str, str]] = (),
    events_before: int = 0,
) -> list[NewEvent]:
    """Save a Step's checked outcome, and ``value`` for the next Step to read; route it unless a pause is asked.

    ``events_before``: how many events of the same transaction come before those that are returned.
    """
    run.boundary += 1
    record_attempt(
        run,
        AttemptStatus.COMPLETED,
        now=now,
        outcome=outcome,
        made=CompletedStep(run.boundary, value, run.event_seq + events_before + 1),
        reads=reads,
        writes=writes,
        log=log,
    )
    where = {"stage": run.stage, "step": run.step, "visit": run.visit}
    event = NewEvent(EventType.STEP_COMPLETED, {**where, "outcome": outcome, "boundary": run.boundary})
    run.previous = {"stage": run.stage, "step": run.step, "value": value}
    if run.pause_requested:
        run.saved_result = {"outcome": outcome}
        rest(run)
        keep_dependencies(run)
        return [event, NewEvent(EventType.RUN_PAUSED, {"boundary": run.boundary})]
    ahead = follow(graph, position_of(run), outcome, run.visits)
    return [event, *follow_on(run, graph, ahead, now=now, instance_id=instance_id)]


def record_attempt(
    run: Run,
    status: AttemptStatus,
    *,
    now: dt.datetime,
    outcome: str | None = None,
    error: dict[str, Any] | None = None,
    made: CompletedStep | None = None,
    reads: Sequence[dict[str, Any]] = (),
    writes: Sequence[dict[str, Any]] = (),
    log: Sequence[dict[str, str]] = (),
) -> None:
    """Keep what became of the segment that was running, and move the step sequence past it."""
    StepAttempt.objects.create(
        run=run,
        step_seq=run.step_seq,
        stage=run.stage,
        step=run.step,
        visit=run.visit,
        kind=run.due_kind,
        segment=run.segment,
        attempt=run.attempts + 1,
        status=status,
        outcome=outcome,
        error=error,
        state_id=run.state_id,
        boundary=made.number if made else None,
        result=made.result if made else None,
        event_seq=made.event_seq if made else None,
        reads=list(reads),
        writes=list(writes),
        log=list(log),
        usage=run.step_usage,
        worker=run.lease_owner,
        queued_at=run.queued_at,
        started_at=run.segment_started_at,
        ended_at=moment(run, now),
    )
    run.step_usage = None
    run.step_seq += 1


def writes_json(run: Run, landed: Landed) -> list[dict[str, Any]]:
    """What a segment wrote, as its attempt keeps it."""
    place = {"loomName": run.loom_name, "stageName": run.stage}
    artifacts = [
        {"artifactId": one.artifact_id, "revision": one.revision, **place, **({"removed": True} if one.removed else {})}
        for one in landed.artifacts
    ]
    return [*artifacts, *({"recordId": record_id} for record_id in landed.record_ids)]


def reads_json(reads: Sequence[Read]) -> list[dict[str, Any]]:
    """What a segment read, as its attempt keeps it."""
    return [
        {
            "artifactId": read.artifact_id,
            "revision": read.revision,
            "loomName": read.loom_name,
            "stageName": read.stage_name,
        }
        if isinstance(read, ArtifactRead)
        else {"recordId": read.record_id}
        for read in reads
    ]


def log_json(lines: Sequence[LogLine]) -> list[dict[str, str]]:
    """What a segment logged, as its attempt keeps it."""
    return [{"level": line.level, "message": line.message} for line in lines]
