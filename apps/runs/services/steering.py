"""Pause, resume, cancel and answer: Operations on a Run that exists (R9–R11, H3)."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Callable

from apps.core import clock
from apps.core.caller import Caller
from apps.core.database import lock_first
from apps.core.errors import ErrorCode, LoomError, not_found
from apps.ledger.contracts import Receipt
from apps.ledger.domain.receipts import Effect, OperationKind
from apps.ledger.services.events import NewEvent
from apps.ledger.services.operations import Applied, perform
from apps.looms.domain.graph import LoomGraph
from apps.looms.services.releases import load_release
from apps.runs.contracts import AnswerAsk, ResumeRun, SteerRun
from apps.runs.domain import answering
from apps.runs.domain.admitting import (
    CancelDecision,
    PauseDecision,
    decide_answer,
    decide_cancel,
    decide_pause,
    decide_resume,
)
from apps.runs.domain.advancing import follow
from apps.runs.domain.facts import RunFacts
from apps.runs.domain.statuses import AttemptStatus, EventType, RunStatus
from apps.runs.models import Action, Run
from apps.runs.services import agent_steps, changes
from apps.runs.services.dependencies import keep_dependencies
from apps.runs.services.diverging import settle


def _locked(caller: Caller, run_id: str) -> Run:
    rows = Run.objects.filter(pk=uuid.UUID(run_id), project_id=caller.project_id)
    run = lock_first(rows.select_related("pending_action"))
    if run is None:
        raise not_found("Run", run_id)
    return run


def _steer(
    caller: Caller,
    kind: OperationKind,
    request: SteerRun,
    now: dt.datetime,
    change: Callable[[Run, RunFacts], list[NewEvent] | None],
    check: Callable[[], None] = lambda: None,
) -> Receipt:
    """``change`` writes onto the locked row and says what happened, or ``None`` for no change at all."""
    instance_id = uuid.UUID(request.service_instance_id)

    def effect() -> Applied:
        run = _locked(caller, request.run_id)
        before = run.revision
        events = change(run, changes.facts_of(run, current_instance=instance_id))
        if events is None:
            return Applied(run.pk, Effect.NONE, before, before)
        changes.save(run, now=now, events=events)
        return Applied(run.pk, Effect.APPLIED, before, run.revision)

    return perform(
        caller=caller,
        kind=kind,
        request=request,
        effect=effect,
        check=check,
        now=now,
        run_id=uuid.UUID(request.run_id),
    )


def pause_run(*, caller: Caller, request: SteerRun, now: dt.datetime) -> Receipt:
    """Pause between Steps at once, else once the current Step has saved its result (R9)."""

    def change(run: Run, facts: RunFacts) -> list[NewEvent] | None:
        match decide_pause(facts):
            case PauseDecision.NOTHING:
                return None
            case PauseDecision.NOW:
                changes.rest(run)
                keep_dependencies(run)
                return [NewEvent(EventType.RUN_PAUSED, {"boundary": run.boundary})]
            case PauseDecision.AFTER_THE_STEP:
                run.pause_requested = True
                return [NewEvent(EventType.PAUSE_REQUESTED)]

    return _steer(caller, OperationKind.PAUSE_RUN, request, now, change)


def resume_run(*, caller: Caller, request: ResumeRun, now: dt.datetime) -> Receipt:
    """Route the saved result, or go on with what was due; no landed Code is repeated (R10)."""
    graph: LoomGraph | LoomError | None = None

    def check() -> None:
        nonlocal graph
        graph = _graph_of(caller, request.run_id)

    def change(run: Run, facts: RunFacts) -> list[NewEvent]:
        decide_resume(facts, expected_revision=request.expected_revision)
        if isinstance(graph, LoomError) and (facts.saved_outcome is not None or run.restored_from is not None):
            raise graph
        settled = settle(run, scope=request.scope, abandon=request.abandon_mirror, now=now)
        run.last_error = None
        # The Run goes on under whoever resumes it; its policy stays what it was admitted with (R14).
        run.credential_id = caller.credential_id
        steps = {"steps": request.steps} if request.steps else {}
        resumed = NewEvent(EventType.RUN_RESUMED, {**steps, **settled.to_event()})
        if facts.saved_outcome is None:
            changes.queue(run, now=now)
            events = []
        else:
            assert isinstance(graph, LoomGraph), "the Run is there, so its Release was asked for"
            ahead = follow(graph, facts.position, facts.saved_outcome, facts.visits)
            events = changes.follow_on(run, graph, ahead, now=now, instance_id=uuid.UUID(request.service_instance_id))
        run.pause_requested = request.steps == 1 and run.status == RunStatus.QUEUED
        return [resumed, *events]

    return _steer(caller, OperationKind.RESUME_RUN, request, now, change, check)


def _graph_of(caller: Caller, run_id: str) -> LoomGraph | LoomError | None:
    """The graph that a saved result is routed by, loaded before any transaction: loading runs an author's imports."""
    rows = Run.objects.filter(pk=uuid.UUID(run_id), project_id=caller.project_id)
    digest = rows.values_list("release_digest", flat=True).first()
    if digest is None:
        return None
    try:
        return load_release(digest).graph
    except LoomError as unavailable:
        return unavailable


def cancel_run(*, caller: Caller, request: SteerRun, now: dt.datetime) -> Receipt:
    """End the Run at once, whoever holds it (R11)."""

    def change(run: Run, facts: RunFacts) -> list[NewEvent] | None:
        if decide_cancel(facts) is CancelDecision.NOTHING:
            return None
        run.fence += 1
        if facts.status is RunStatus.RUNNING:
            changes.record_attempt(run, AttemptStatus.CANCELLED, now=now)
        events = agent_steps.cancel_agent_step(run, now=now)
        changes.finish(run, RunStatus.CANCELLED, now=now, instance_id=uuid.UUID(request.service_instance_id))
        return [*events, NewEvent(EventType.RUN_CANCELLED)]

    return _steer(caller, OperationKind.CANCEL_RUN, request, now, change)


def answer_ask(
    *,
    caller: Caller,
    request: AnswerAsk,
    via: str,
    now: dt.datetime,
    kind: OperationKind = OperationKind.ANSWER_ASK,
) -> Receipt:
    """Give the waiting Action its answer; its continuation is due (H1–H3, H6, H7)."""

    def check() -> None:
        waiting = Action.objects.filter(
            pk=uuid.UUID(request.action_id), run_id=uuid.UUID(request.run_id), run__project_id=caller.project_id
        ).first()
        if waiting is None or waiting.answered_at is not None:
            return  # the effect refuses it, with a receipt
        answering.check_answer(waiting.kind, waiting.request, request.answer)
        if waiting.only_person and not answering.counts_as_person(caller.source, via):
            raise LoomError(
                ErrorCode.FORBIDDEN,
                "Only a person may answer this. They can do so in a native form, in the console, with `loomsvc "
                "answer_ask`, or in the Studio.",
            )

    def change(run: Run, facts: RunFacts) -> list[NewEvent]:
        action = run.pending_action
        pending = str(action.pk) if action else None
        answered = who_answered(run, request.action_id)
        decide_answer(facts, pending_action=pending, action_id=request.action_id, answered=answered)
        assert action is not None
        who = {"principal": caller.principal, "source": caller.source.value, "via": via}
        action.answer, action.answered_by, action.answered_at = request.answer, who, changes.moment(run, now)
        action.save(update_fields=["answer", "answered_by", "answered_at"])
        run.pending_action = None
        run.answer = {"kind": action.kind, "value": request.answer}
        changes.queue(run, now=now)
        return [NewEvent(EventType.ACTION_ANSWERED, {"actionId": str(action.pk), "answeredBy": who})]

    return _steer(caller, kind, request, now, change, check)


def who_answered(run: Run, action_id: str) -> answering.Answered | None:
    """Who answered an Action of the Run; ``None`` while it waits, and when it is none of the Run's."""
    if action_id == str(run.pending_action_id):
        return None
    action = Action.objects.filter(pk=uuid.UUID(action_id), run_id=run.pk, answered_at__isnull=False).first()
    if action is None or action.answered_at is None:
        return None
    return answering.Answered(action.answered_by, clock.to_wire(action.answered_at))
