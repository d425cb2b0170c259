"""Reads of agent calls: what an agent has to do, and where it stands (A1, A2, A5)."""

from __future__ import annotations

import uuid

from django.db.models import QuerySet

from apps.agents import contracts
from apps.agents.domain.deciding import CallFacts
from apps.agents.domain.statuses import ClosedAs, ToolStatus
from apps.agents.models import AgentCall, ToolReceipt
from apps.core import clock
from apps.core.caller import Caller
from apps.core.database import database_now, holds
from apps.core.errors import not_found
from apps.looms.loaded import AgentTask, LoadedLoom, Skill
from apps.looms.services.releases import load_release
from apps.runs.contracts import CursorView, PendingAgentCall

#: A call with the Release of its Run, whose other values may be large.
_WITH_RELEASE = (*(field.name for field in AgentCall._meta.concrete_fields), "run__release_digest")


def _with_life() -> QuerySet[AgentCall]:
    """Calls with what the database's clock says of them: ``is_over``, their receipts have left the protocol
    (A5); ``is_overdue``, they are open past their Step's timeout (R12)."""
    return AgentCall.objects.annotate(
        is_over=holds(receipts_until__lte=database_now()),
        is_overdue=holds(closed_as="", deadline_at__lt=database_now()),
    )


def call_rows(*, caller: Caller, reference: contracts.TaskReference) -> QuerySet[AgentCall]:
    """The referenced call of the caller's own Project, if there is one (E5)."""
    return _with_life().filter(
        pk=uuid.UUID(reference.call_id), run_id=uuid.UUID(reference.run_id), run__project_id=caller.project_id
    )


def find_call(*, caller: Caller, reference: contracts.TaskReference) -> AgentCall:
    """The call; ``NOT_FOUND`` for one that never was, and for another Project's (E4, E5)."""
    call = call_rows(caller=caller, reference=reference).select_related("run").only(*_WITH_RELEASE).first()
    if call is None:
        raise not_found("agent call", reference.call_id)
    return call


def facts_of(call: AgentCall) -> CallFacts:
    """What decisions look at; ``call`` comes from :func:`call_rows`."""
    running = call.receipts.filter(status=ToolStatus.RUNNING).values_list("tool_call_id", flat=True).first()
    return CallFacts(
        claimed=bool(call.claim_digest),
        tools_closed=call.tools_closed,
        receipts_made=call.receipts_made,
        running_tool=running,
        closed_as=ClosedAs(call.closed_as) if call.closed_as else None,
        closing_digest=call.closing_digest,
        receipts_over=is_over(call),
    )


def is_over(call: AgentCall) -> bool:
    """Whether the call's receipts have left the protocol."""
    return bool(getattr(call, "is_over", False))


def is_overdue(call: AgentCall) -> bool:
    """Whether the call is still open past its Step's timeout."""
    return bool(getattr(call, "is_overdue", False))


def known_receipt(call: AgentCall, tool_call_id: str) -> ToolReceipt | None:
    """What is stored under a ``toolCallId``, for as long as it is in the protocol."""
    return None if is_over(call) else call.receipts.filter(tool_call_id=tool_call_id).first()


def task_in(loom: LoadedLoom, call: AgentCall) -> AgentTask:
    """The task of a call, from the Release that its Run is pinned to."""
    return loom.agents[call.stage, call.step]


def task_of(call: AgentCall) -> contracts.TaskView | None:
    """What the agent is given (A2); ``None`` once the call is closed.  The call comes with its Run."""
    if call.closed_as:
        return None
    task = task_in(load_release(call.run.release_digest), call)
    return contracts.TaskView(
        run_id=str(call.run_id),
        call_id=str(call.pk),
        agent_id=task.agent_id,
        cursor=CursorView(stage=call.stage, step=call.step, visit=call.visit),
        instructions=task.instructions,
        skills=[_skill(skill) for skill in task.skills],
        tools=[
            contracts.ToolView(
                id=tool.id,
                description=tool.description,
                input_schema=tool.input_schema,
                output_schema=tool.output_schema,
                is_end_tool=tool.id == task.end_tool,
            )
            for tool in task.tools
        ],
        output_schema=task.output_schema(),
    )


def _skill(skill: Skill) -> contracts.SkillView:
    return contracts.SkillView(
        name=skill.name,
        description=skill.description,
        content=skill.content,
        assets=[contracts.AssetReference(id=asset.id, name=asset.name, size=asset.size) for asset in skill.assets],
    )


def get_agent_call(*, caller: Caller, reference: contracts.TaskReference) -> contracts.AgentCallView:
    """The call as it stands; it claims nothing and shows no token (A1)."""
    return _view(find_call(caller=caller, reference=reference))


def show_agent_call(*, caller: Caller, call_id: str) -> contracts.AgentCallView:
    """The same by the call's id alone."""
    rows = _with_life().filter(pk=uuid.UUID(call_id), run__project_id=caller.project_id)
    call = rows.select_related("run").only(*_WITH_RELEASE).first()
    if call is None:
        raise not_found("agent call", call_id)
    return _view(call)


def _view(call: AgentCall) -> contracts.AgentCallView:
    rows = call.receipts.none() if is_over(call) else call.receipts.order_by("id")
    receipts = rows.values("tool_call_id", "tool_id", "status")
    return contracts.AgentCallView(
        pending=None if call.closed_as else _pending(call),
        task=task_of(call),
        receipts=[contracts.ReceiptReference.model_validate(receipt) for receipt in receipts],
        closed_as=call.closed_as or None,  # type: ignore[arg-type]  # ClosedAs, as its choices have it
    )


def _pending(call: AgentCall) -> PendingAgentCall:
    return PendingAgentCall(
        id=str(call.pk),
        agent_id=call.agent_id,
        phase="claimed" if call.claim_digest else "available",
        created_at=clock.to_wire(call.created_at),
    )
