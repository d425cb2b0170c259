"""Starting, reading and steering Runs."""

from __future__ import annotations

import uuid
from typing import Any

from apps.core import clock, conf, json_text
from apps.core.caller import Caller
from apps.core.contracts import Empty
from apps.core.endpoints import Endpoint, Kind, Route, register
from apps.core.errors import LoomError
from apps.ledger.contracts import Receipt
from apps.ledger.selectors.instances import current_instance
from apps.looms.loaded import MAX_ASSET_BYTES
from apps.runs import contracts
from apps.runs.domain.answering import answered_via
from apps.runs.selectors import boundaries, lineage, runs
from apps.runs.services import admission, forks, interacting, steering
from apps.runs.services.executors import not_ready_because
from apps.runs.services.worker import lost_threads

_IDENTITY = (
    "Carries `operationId` (a UUID you make and keep) and `serviceInstanceId` (from `status`); sending it again "
    "unchanged returns the same receipt and never applies it twice."
)


def _result(caller: Caller, receipt: Receipt) -> contracts.OperationResult:
    """The receipt with the Run's present view; a rejected one is raised with both beside its error (O6)."""
    run = None
    if receipt.run_id is not None:
        try:
            run = runs.get_run(project_id=caller.project_id, run_id=receipt.run_id)
        except LoomError:
            run = None  # removed by retention; the receipt stays (R17)
    if receipt.error is not None:
        refusal = LoomError.from_wire(receipt.error)
        refusal.attachments = {"receipt": receipt.to_wire(), **({"run": run.to_wire()} if run else {})}
        raise refusal
    return contracts.OperationResult(receipt=receipt, run=run)


def _run(caller: Caller, request: contracts.RunLoom) -> contracts.OperationResult:
    return _result(caller, admission.run_loom(caller=caller, request=request, now=clock.now()))


def _pause(caller: Caller, request: contracts.SteerRun) -> contracts.OperationResult:
    return _result(caller, steering.pause_run(caller=caller, request=request, now=clock.now()))


def _resume(caller: Caller, request: contracts.ResumeRun) -> contracts.OperationResult:
    return _result(caller, steering.resume_run(caller=caller, request=request, now=clock.now()))


def _fork(caller: Caller, request: contracts.ForkRun) -> contracts.OperationResult:
    return _result(caller, forks.fork_run(caller=caller, request=request, now=clock.now()))


def _cancel(caller: Caller, request: contracts.SteerRun) -> contracts.OperationResult:
    return _result(caller, steering.cancel_run(caller=caller, request=request, now=clock.now()))


def _answer(caller: Caller, request: contracts.AnswerAsk) -> contracts.OperationResult:
    via = answered_via(caller)
    return _result(caller, steering.answer_ask(caller=caller, request=request, via=via, now=clock.now()))


def _interact(caller: Caller, request: contracts.Interact) -> contracts.Interaction:
    receipt = interacting.find_receipt(caller=caller, request=request)
    if receipt is not None:
        return _interaction(caller, receipt)
    run = interacting.require_waiting(caller=caller, request=request)
    return contracts.Interaction(run=run, action=run.pending_action, presented="unsupported")


def answer_interaction(caller: Caller, request: contracts.AnswerAsk) -> contracts.Interaction:
    """Admit the answer that a human gave in a form of ``interact``, for the face that showed it (H4)."""
    return _interaction(caller, interacting.interact(caller=caller, request=request, now=clock.now()))


def _interaction(caller: Caller, receipt: Receipt) -> contracts.Interaction:
    admitted = _result(caller, receipt)
    return contracts.Interaction(receipt=admitted.receipt, run=admitted.run)


def _get_run(caller: Caller, request: contracts.GetRun) -> contracts.RunFound:
    return contracts.RunFound(run=runs.get_run(project_id=caller.project_id, run_id=request.run_id))


def _list_runs(caller: Caller, query: contracts.ListRuns) -> contracts.RunList:
    return runs.list_runs(project_id=caller.project_id, query=query)


def _find_run(caller: Caller, request: contracts.FindRun) -> contracts.RunOrNull:
    return contracts.RunOrNull(
        run=runs.find_run(
            project_id=caller.project_id,
            operation_id=request.operation_id,
            instance_id=request.service_instance_id,
        )
    )


def _status(caller: Caller, _: Any) -> contracts.Status:
    instance = current_instance()
    reason = not_ready_because(caller.agent_executor, caller.project_id)
    return contracts.Status(
        service=contracts.ServiceView(
            instance_id=str(instance.id),
            version=instance.version,
            started_at=clock.to_wire(instance.opened_at),
            project=caller.project_name,
            source=caller.source.value,
            agent_executor=caller.agent_executor.value,
            ready=reason is None,
            not_ready_because=reason,
            limits={
                "valueBytes": conf.settings().max_value_bytes,
                "valueDepth": json_text.MAX_DEPTH,
                "pageSize": 200,
                "agentToolReceipts": 256,
                "agentAssetBytes": MAX_ASSET_BYTES,
            },
            counts={**runs.open_counts(project_id=caller.project_id), "lostThreads": lost_threads()},
        )
    )


def _events(caller: Caller, query: contracts.ListEvents) -> contracts.EventList:
    return runs.list_events(project_id=caller.project_id, query=query)


def _attempts(caller: Caller, query: contracts.ListAttempts) -> contracts.AttemptList:
    return runs.list_attempts(project_id=caller.project_id, query=query)


def _boundaries(caller: Caller, query: contracts.ListBoundaries) -> contracts.BoundaryList:
    return boundaries.list_boundaries(project_id=caller.project_id, query=query)


def _lineage(caller: Caller, request: contracts.GetRun) -> contracts.Lineage:
    return lineage.lineage_of(uuid.UUID(request.run_id), project_id=caller.project_id)


STATUS = register(
    Endpoint(
        name="status",
        title="Read the service's status",
        description=(
            "Read this first: `service.instanceId` is the `serviceInstanceId` of every write, and it changes when "
            "the service is restarted. Also says who you are here, whether Agent Steps can run, limits, and how many "
            "Runs are open."
        ),
        input=Empty,
        output=contracts.Status,
        handler=_status,
        kind=Kind.READ,
        route=Route("GET", "/status"),
    )
)
RUN = register(
    Endpoint(
        name="run",
        title="Start a Run",
        description=(
            "Start a Run of a Loom (see `list_looms` for names and input schemas). `accepted` means admitted, no "
            f"more: follow it with `get_run`. {_IDENTITY}"
        ),
        input=contracts.RunLoom,
        output=contracts.OperationResult,
        handler=_run,
        kind=Kind.OPERATION,
        route=Route("POST", "/runs"),
    )
)
GET_RUN = register(
    Endpoint(
        name="get_run",
        title="Get a Run",
        description=(
            "A Run as it stands: status, cursor, what it waits for (`pendingAction` or `pendingAgentCall`), outcome "
            "or `lastError`, and the ids of its results."
        ),
        input=contracts.GetRun,
        output=contracts.RunFound,
        handler=_get_run,
        kind=Kind.READ,
        route=Route("GET", "/runs/{runId}"),
    )
)
LIST_RUNS = register(
    Endpoint(
        name="list_runs",
        title="List Runs",
        description=(
            "Runs of this Project, newest first, optionally of one Loom or status. `historical` ones ended before "
            "the service was started and are read-only. Continue with `nextCursor` and the same filters."
        ),
        input=contracts.ListRuns,
        output=contracts.RunList,
        handler=_list_runs,
        kind=Kind.READ,
        route=Route("GET", "/runs"),
    )
)
ANSWER_ASK = register(
    Endpoint(
        name="answer_ask",
        title="Answer a question or confirmation",
        description=(
            "Give the answer that a human gave to a Run's `pendingAction`; never answer for the human. Questions "
            "take the complete array of {questionId, isSkipped, answer?}, where `answer` is the `id` of an option or "
            "the human's own words; a confirmation takes {isConfirmed, feedback?}. An Action with `onlyPerson` is not "
            f"answered here but by a person elsewhere. {_IDENTITY}"
        ),
        input=contracts.AnswerAsk,
        output=contracts.OperationResult,
        handler=_answer,
        kind=Kind.OPERATION,
        route=Route("POST", "/runs/{runId}/actions/{actionId}/answer"),
    )
)
INTERACT = register(
    Endpoint(
        name="interact",
        title="Ask the human",
        description=(
            "Put a Run's `pendingAction` to your human in a form of your client. Their answer is admitted under the "
            "operationId given, and the result is its receipt. `presented` in the result says that it was not "
            "answered: `unsupported` (your client shows no form), `declined` or `cancelled`. Nothing was stored "
            "then and the Run waits; show them `action` yourself and pass on their words with `answer_ask`, under a "
            f"new operationId. {_IDENTITY}"
        ),
        input=contracts.Interact,
        output=contracts.Interaction,
        handler=_interact,
        kind=Kind.OPERATION,
    )
)
PAUSE_RUN = register(
    Endpoint(
        name="pause_run",
        title="Pause a Run",
        description=(
            "Pause a Run once its current Step has completed and saved its result; `pauseRequested` is shown until "
            f"then. {_IDENTITY}"
        ),
        input=contracts.SteerRun,
        output=contracts.OperationResult,
        handler=_pause,
        kind=Kind.OPERATION,
        route=Route("POST", "/runs/{runId}/pause"),
    )
)
RESUME_RUN = register(
    Endpoint(
        name="resume_run",
        title="Resume a paused Run",
        description=(
            "Go on with a paused Run: its saved result is routed, no finished Code is repeated. `expectedRevision` "
            "is the `revision` that you have seen; `steps: 1` pauses again after the next Step. `MIRROR_DIVERGED` "
            "lists what the Run depends on and others have changed meanwhile: ask your human, then send `scope` to "
            f"bring it back or `abandonMirror: true` to go on with what is there. {_IDENTITY}"
        ),
        input=contracts.ResumeRun,
        output=contracts.OperationResult,
        handler=_resume,
        kind=Kind.OPERATION,
        route=Route("POST", "/runs/{runId}/resume"),
    )
)
CANCEL_RUN = register(
    Endpoint(
        name="cancel_run",
        title="Cancel a Run",
        description=f"End a Run at once. Effects that it already had are not undone. {_IDENTITY}",
        input=contracts.SteerRun,
        output=contracts.OperationResult,
        handler=_cancel,
        kind=Kind.OPERATION,
        route=Route("POST", "/runs/{runId}/cancel"),
        destructive=True,
    )
)
FORK_RUN = register(
    Endpoint(
        name="fork_run",
        title="Fork a Run",
        description=(
            "Begin another Run at `boundary` of a Run, with the State, the result and the visits that it had there: "
            "the n-th completed Step makes boundary n, 0 is the beginning, and the Run's `boundary` is its latest. "
            "The fork is `run` in the result, paused; `resume_run` sets it going. The Run that is forked stays as it "
            f"is; it may have ended long ago. {_IDENTITY}"
        ),
        input=contracts.ForkRun,
        output=contracts.OperationResult,
        handler=_fork,
        kind=Kind.OPERATION,
        route=Route("POST", "/runs/{runId}/fork"),
    )
)
FIND_RUN = register(
    Endpoint(
        name="find_run",
        title="Find the Run of an operation",
        description=(
            "The Run that a `run` operation started, by its original operationId and serviceInstanceId; works "
            "across restarts. `run` is null when it started none."
        ),
        input=contracts.FindRun,
        output=contracts.RunOrNull,
        handler=_find_run,
        kind=Kind.READ,
        route=Route("GET", "/operations/{serviceInstanceId}/{operationId}/run", null_is_missing="run"),
    )
)
LIST_EVENTS = register(
    Endpoint(
        name="list_run_events",
        title="List a Run's events",
        description="What happened to a Run, numbered from 1 without gaps, in order.",
        input=contracts.ListEvents,
        output=contracts.EventList,
        handler=_events,
        kind=Kind.READ,
        route=Route("GET", "/runs/{runId}/events"),
        tool=False,
    )
)
LIST_ATTEMPTS = register(
    Endpoint(
        name="list_run_attempts",
        title="List a Run's attempts",
        description="Every attempt at the Run's segments with its times, outcome or error, log and State.",
        input=contracts.ListAttempts,
        output=contracts.AttemptList,
        handler=_attempts,
        kind=Kind.READ,
        route=Route("GET", "/runs/{runId}/attempts"),
        tool=False,
    )
)
LIST_BOUNDARIES = register(
    Endpoint(
        name="list_run_boundaries",
        title="List a Run's boundaries",
        description="Where the Run can be forked: each completed Step with its outcome and time, in order.",
        input=contracts.ListBoundaries,
        output=contracts.BoundaryList,
        handler=_boundaries,
        kind=Kind.READ,
        route=Route("GET", "/runs/{runId}/boundaries"),
        tool=False,
    )
)
LINEAGE = register(
    Endpoint(
        name="get_run_lineage",
        title="Get a Run's lineage",
        description="The Runs of this Run's trace as a tree: each Run before those that were made from it.",
        input=contracts.GetRun,
        output=contracts.Lineage,
        handler=_lineage,
        kind=Kind.READ,
        route=Route("GET", "/runs/{runId}/lineage"),
        tool=False,
    )
)
