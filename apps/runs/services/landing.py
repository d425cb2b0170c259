"""Landing: everything a segment did, in one transaction, under the Run's fence and step sequence (R6)."""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db import IntegrityError, transaction

from apps.access.services.credentials import is_live
from apps.core import clock
from apps.core.database import lock_first
from apps.core.failpoints import Failpoint, reach
from apps.ledger.services.events import NewEvent
from apps.looms.authoring.refusals import ArtifactConflict, RecordConflict
from apps.looms.domain.graph import AgentStepSpec
from apps.looms.messages import error_names
from apps.looms.segments import Ask, Confirm, Failed, Outcome, SegmentOutput, Sleep
from apps.results.services import landing as results
from apps.runs.domain.advancing import check_outcome, policy_of, step_of
from apps.runs.domain.facts import RunError
from apps.runs.domain.statuses import AttemptStatus, EventType, RunErrorCode, RunStatus, SegmentKind
from apps.runs.models import Action, Run, State
from apps.runs.services import changes
from apps.runs.services.leasing import Leased, begin_segment, leased_of

logger = logging.getLogger("loomsvc.runs")


@dataclass(frozen=True, slots=True)
class SegmentResult:
    """What a worker brings back.  ``keep``: it would go on with the Run's next segment at once."""

    leased: Leased
    output: SegmentOutput
    keep: bool = False


@dataclass(frozen=True, slots=True)
class Landed:
    """``accepted`` is False when the fence had moved: nothing of the result was stored.

    ``next`` is the Run's next segment, begun under the same lease, when the worker keeps it.
    """

    accepted: bool
    next: Leased | None = None


def land(results: Sequence[SegmentResult], *, now: dt.datetime) -> list[Landed]:
    """Land several Runs' results, one of each, in one transaction, each under its own fence.

    A batch that fails as a whole falls back to one by one, so that one bad result harms no other.
    """
    try:
        with transaction.atomic():
            # In the order in which everybody locks Runs.
            in_order = sorted(results, key=lambda result: result.leased.run_id)
            landed = {result.leased.run_id: _land_one(result, now=now) for result in in_order}
            reach(Failpoint.AFTER_EFFECT_BEFORE_COMMIT)
    except Exception:
        if len(results) == 1:
            raise
        logger.exception("a batch of %d results could not land together", len(results))
        return [_land_alone(result, now=now) for result in results]
    reach(Failpoint.AFTER_COMMIT_BEFORE_ACK)
    return [landed[result.leased.run_id] for result in results]


def _land_alone(result: SegmentResult, *, now: dt.datetime) -> Landed:
    """One result of a batch that fell apart; what cannot land by itself either is left to its lease's end."""
    try:
        return land([result], now=now)[0]
    except Exception:
        logger.exception("a result of Run %s could not land", result.leased.run_id)
        return Landed(accepted=False)


def unstorable(result: SegmentResult, error: Exception) -> SegmentResult:
    """What lands in place of a result that the ledger could not store: the Step fails, and nothing of it is kept."""
    message = f"The Step's result could not be stored ({type(error).__name__}); the service's log says why."
    failed = Failed(RunErrorCode.STEP_RESULT_INVALID.value, message, ())
    return SegmentResult(result.leased, SegmentOutput(failed, result.leased.state, False, (), (), ()))


def _land_one(result: SegmentResult, *, now: dt.datetime) -> Landed:
    leased, output = result.leased, result.output
    rows = Run.objects.select_related("credential", "state").filter(
        pk=leased.run_id, fence=leased.fence, step_seq=leased.step_seq, status=RunStatus.RUNNING
    )
    run = lock_first(rows)
    if run is None:
        logger.warning("a late result of Run %s was refused: its lease had passed on", leased.run_id)
        return Landed(accepted=False)
    ending = output.ending
    landed: results.Landed | Failed = results.Landed()
    if not isinstance(ending, Failed):
        landed = _commit(run, leased, output, now)
    if isinstance(ending, Failed):
        events = [_failed(run, leased, ending, output, now)]
    elif isinstance(landed, Failed):
        events = [_failed(run, leased, landed, output, now)]
    else:
        _keep_state(run, output, now)
        events = _succeeded(run, leased, ending, output, changes.writes_json(run, landed), now)
    going_on = result.keep and _goes_on(run, leased, now)
    if going_on:
        _keep_lease(run, leased, now)
    changes.save(run, now=now, events=events)
    return Landed(True, leased_of(run, leased.loom, instance_id=leased.instance_id) if going_on else None)


def _commit(run: Run, leased: Leased, output: SegmentOutput, now: dt.datetime) -> results.Landed | Failed:
    """Check the outcome and land staged commits: what was written, or what is wrong."""
    if isinstance(output.ending, Outcome) and leased.due.kind is not SegmentKind.INITIALIZE:
        error = check_outcome(leased.loom.graph, leased.position, output.ending.outcome)
        if error is not None:
            return Failed(error.code.value, error.message, ())
    if not output.staged:
        return results.Landed()
    landing = results.Landing(run.project_id, run.loom_name, run.stage, run.pk, changes.moment(run, now))
    try:
        try:
            with transaction.atomic():
                landed = results.land_commits(landing, output.staged)
        except IntegrityError:
            # Another Run took one of these ids at the same moment; what it put there can be seen now.
            with transaction.atomic():
                landed = results.land_commits(landing, output.staged)
    except (ArtifactConflict, RecordConflict) as conflict:
        return _refused(conflict, leased)
    except IntegrityError:
        return _refused(ArtifactConflict("other Runs take the same ids at the same moment"), leased)
    run.artifact_ids = list(dict.fromkeys([*run.artifact_ids, *landed.artifact_ids]))
    run.record_ids = list(dict.fromkeys([*run.record_ids, *landed.record_ids]))
    return landed


def _refused(conflict: Exception, leased: Leased) -> Failed:
    """A commit that cannot land fails the Step as an exception would that its Code had raised (S3, S4)."""
    names = error_names(type(conflict), leased.loom.package)
    return Failed(RunErrorCode.STEP_FAILED.value, f"{type(conflict).__name__}: {conflict}", names)


def _keep_state(run: Run, output: SegmentOutput, now: dt.datetime) -> None:
    if output.state_changed or run.due_kind == SegmentKind.INITIALIZE:
        run.state = State.objects.create(
            run=run, stage=run.stage, data=output.state, created_at=changes.moment(run, now)
        )


def _succeeded(
    run: Run,
    leased: Leased,
    ending: Outcome | Ask | Confirm | Sleep,
    output: SegmentOutput,
    writes: list[dict[str, Any]],
    now: dt.datetime,
) -> list[NewEvent]:
    reads, log = changes.reads_json(output.reads), changes.log_json(output.log)
    if leased.due.kind is SegmentKind.INITIALIZE:
        changes.record_attempt(run, AttemptStatus.COMPLETED, now=now, reads=reads, writes=writes, log=log)
        run.due_kind = SegmentKind.STEP
        run.attempts = 0
        run.segment_time = None
        run.policy = policy_of(leased.loom.graph, leased.position, SegmentKind.STEP).to_json()
        # A pause waits for the Step that the Stage is entered for: an initializer completes none.
        changes.queue(run, now=now)
        return [NewEvent(EventType.STAGE_INITIALIZED, {"stage": run.stage})]
    if isinstance(ending, Outcome):
        return changes.complete_step(
            run,
            leased.loom.graph,
            ending.outcome,
            value=ending.outcome,
            now=now,
            instance_id=leased.instance_id,
            reads=reads,
            writes=writes,
            log=log,
        )
    changes.record_attempt(run, AttemptStatus.WAITED, now=now, reads=reads, writes=writes, log=log)
    where = {"stage": run.stage, "step": run.step, "visit": run.visit}
    return [NewEvent(EventType.STEP_WAITED, {**where, **_wait(run, ending, now)})]


def _wait(run: Run, ending: Ask | Confirm | Sleep, now: dt.datetime) -> dict[str, Any]:
    """Park the Run: its continuation is due once the answer, or the time, has come."""
    run.attempts = 0
    run.segment += 1
    run.segment_time = None
    run.due_kind = SegmentKind.CONTINUATION
    run.continuation = ending.then
    run.answer = None
    if isinstance(ending, Sleep):
        run.answer = {"kind": "sleep", "value": None}
        changes.queue(run, now=now, until=ending.until)
        return {"until": clock.to_wire(ending.until)}
    action = Action.objects.create(
        run=run,
        kind="questions" if isinstance(ending, Ask) else "confirmation",
        request=ending.request if isinstance(ending, Ask) else {"context": ending.context},
        only_person=ending.only_person,
        continuation=ending.then,
        created_at=changes.moment(run, now),
    )
    run.status = RunStatus.WAITING
    run.pending_action = action
    run.due_at = None
    changes.release_lease(run)
    return {"actionId": str(action.pk), "kind": action.kind}


def _failed(run: Run, leased: Leased, ending: Failed, output: SegmentOutput, now: dt.datetime) -> NewEvent:
    return changes.fail_segment(
        run,
        RunError(RunErrorCode(ending.code), ending.message),
        error_names=ending.error_names,
        now=now,
        instance_id=leased.instance_id,
        reads=changes.reads_json(output.reads),
        log=changes.log_json(output.log),
    )


def _goes_on(run: Run, leased: Leased, now: dt.datetime) -> bool:
    """Whether the worker may run the next segment under the lease it holds."""
    if run.status != RunStatus.QUEUED or isinstance(
        step_of(leased.loom.graph, changes.position_of(run)), AgentStepSpec
    ):
        return False
    if run.due_kind == SegmentKind.CONTINUATION or run.attempts:
        return False
    return run.credential is None or is_live(run.credential, now)


def _keep_lease(run: Run, leased: Leased, now: dt.datetime) -> None:
    run.status = RunStatus.RUNNING
    run.due_at = None
    run.lease_owner = leased.owner
    begin_segment(run, now=now)
