"""Admitting a Run (R5, R8, R15)."""

from __future__ import annotations

import datetime as dt
import uuid
from typing import Any

from apps.core import conf
from apps.core.caller import Caller
from apps.core.errors import ErrorCode, Issue, LoomError, invalid_request
from apps.core.ids import new_id
from apps.ledger.contracts import Receipt
from apps.ledger.domain.receipts import OperationKind
from apps.ledger.services.events import NewEvent, append_events
from apps.ledger.services.operations import Applied, perform
from apps.looms.domain.graph import AgentStepSpec, LoomGraph
from apps.looms.loaded import LoadedLoom
from apps.looms.services.catalog import LoomStatus, current
from apps.runs.contracts import RunLoom
from apps.runs.domain.advancing import start
from apps.runs.domain.statuses import EventType, RunStatus
from apps.runs.models import Run
from apps.runs.queue import ring_on_commit
from apps.runs.services import changes
from apps.runs.services.exclusivity import require_no_other
from apps.runs.services.executors import not_ready_because


def run_loom(*, caller: Caller, request: RunLoom, now: dt.datetime) -> Receipt:
    """Admit one Run of a Loom's newest Release; its receipt."""
    entry = current(request.loom_name)
    loom = entry.loom if entry is not None else None

    def check() -> None:
        if loom is not None:
            issues = loom.check_input(request.input, max_bytes=conf.settings().max_value_bytes)
            if issues:
                raise invalid_request(
                    f"the input of {loom.name}",
                    [Issue(i.code, f"/input{i.path}", i.suggestion) for i in issues],
                )

    def effect() -> Applied:
        if entry is None:
            raise LoomError(
                ErrorCode.NOT_FOUND, f"There is no Loom {request.loom_name}. `list_looms` shows those there are."
            )
        if loom is None or entry.status is LoomStatus.INVALID:
            raise LoomError(
                ErrorCode.RELEASE_UNAVAILABLE,
                f"Loom {request.loom_name} does not load at present. `list_looms` shows its diagnostics.",
            )
        return _admit(caller, request, loom, now)

    return perform(caller=caller, kind=OperationKind.RUN, request=request, check=check, effect=effect, now=now)


def admitted_by(caller: Caller) -> dict[str, Any]:
    """The columns of a Run that say under whose policy, and in whose name, it begins (R14)."""
    return {
        "source": caller.source,
        "agent_executor": caller.agent_executor,
        "profile": caller.profile or "",
        "entry": caller.entry,
        "principal": caller.principal,
        "credential_id": caller.credential_id,
    }


def _admit(caller: Caller, request: RunLoom, loom: LoadedLoom, now: dt.datetime) -> Applied:
    graph = loom.graph
    _require_executor(caller, graph)
    if graph.exclusive:
        require_no_other(project_id=caller.project_id, loom_name=graph.loom)
    ahead = start(graph)
    run_id = new_id()
    run = Run(
        id=run_id,
        trace_id=run_id,
        project_id=caller.project_id,
        loom_name=graph.loom,
        release_digest=loom.digest,
        exclusive=graph.exclusive,
        input=request.input,
        **admitted_by(caller),
        origin_operation_id=uuid.UUID(request.operation_id),
        origin_instance_id=uuid.UUID(request.service_instance_id),
        status=RunStatus.QUEUED,
        created_at=now,
        updated_at=now,
    )
    changes.place(run, graph, ahead)
    changes.queue(run, now=now)
    run.event_seq = append_events(
        run_id=run_id,
        after=0,
        events=[NewEvent(EventType.RUN_ADMITTED, {"loomName": graph.loom, "releaseDigest": loom.digest})],
        at=now,
    )
    run.save(force_insert=True)
    ring_on_commit()
    return Applied(run_id, revision_after=run.revision)


def _require_executor(caller: Caller, graph: LoomGraph) -> None:
    steps = (step for stage in graph.stages.values() for step in stage.steps.values())
    if any(isinstance(step, AgentStepSpec) for step in steps):
        reason = not_ready_because(caller.agent_executor, caller.project_id, graph)
        if reason is not None:
            raise LoomError(ErrorCode.UNAVAILABLE, reason)
