"""Agent calls for an operator: what waits for an agent, and what came of the calls of a Run."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet

from apps.agents.models import AgentCall, ToolReceipt


@dataclass(frozen=True, slots=True)
class ToolEntry:
    """A Tool call's receipt with what came of it; ``status`` is a ``ToolStatus``."""

    run_id: uuid.UUID
    call_id: uuid.UUID
    tool_call_id: str
    tool_id: str
    status: str
    output: Any
    error: dict[str, Any] | None
    created_at: dt.datetime
    settled_at: dt.datetime | None


@dataclass(frozen=True, slots=True)
class CallEntry:
    """An agent call; ``closed_as`` is empty while it is open, ``claimed_by`` while nobody has it."""

    id: uuid.UUID
    run_id: uuid.UUID
    project_id: uuid.UUID
    loom_name: str
    stage: str
    step: str
    visit: int
    agent_id: str
    created_at: dt.datetime
    deadline_at: dt.datetime | None
    claimed_at: dt.datetime | None
    claimed_by: str
    closed_as: str
    closed_at: dt.datetime | None
    receipts: tuple[ToolEntry, ...] = ()


def _call(row: AgentCall, receipts: Iterable[ToolReceipt] = ()) -> CallEntry:
    return CallEntry(
        id=row.pk,
        run_id=row.run_id,
        project_id=row.run.project_id,
        loom_name=row.run.loom_name,
        stage=row.stage,
        step=row.step,
        visit=row.visit,
        agent_id=row.agent_id,
        created_at=row.created_at,
        deadline_at=row.deadline_at,
        claimed_at=row.claimed_at,
        claimed_by="" if row.claimed_by is None else str(row.claimed_by),
        closed_as=row.closed_as,
        closed_at=row.closed_at,
        receipts=tuple(_tool(receipt, row.run_id) for receipt in receipts),
    )


def _tool(row: ToolReceipt, run_id: uuid.UUID) -> ToolEntry:
    return ToolEntry(
        run_id=run_id,
        call_id=row.call_id,
        tool_call_id=row.tool_call_id,
        tool_id=row.tool_id,
        status=row.status,
        output=row.output,
        error=row.error,
        created_at=row.created_at,
        settled_at=row.settled_at,
    )


#: Of the Run and the credential beside a call; a Run's other values may be large.
_BESIDE = ("run__project_id", "run__loom_name", "claimed_by__label", "claimed_by__public_id")
_CALL = (
    "run", "stage", "step", "visit", "agent_id", "created_at", "deadline_at", "claimed_at", "claimed_by", "closed_as",
    "closed_at",
)  # fmt: skip


def _calls() -> QuerySet[AgentCall]:
    return AgentCall.objects.select_related("run", "claimed_by").only(*_CALL, *_BESIDE)


def unclaimed_calls(*, project_ids: Collection[uuid.UUID], limit: int) -> list[CallEntry]:
    """Open calls that no agent has claimed, the longest waiting first."""
    rows = _calls().filter(closed_as="", claim_digest="", run__project_id__in=project_ids)
    return [_call(row) for row in rows.order_by("id")[:limit]]


def indeterminate_tool_calls(*, project_ids: Collection[uuid.UUID], limit: int) -> list[ToolEntry]:
    """Tool calls of which nobody knows whether they had an effect, newest first."""
    rows = ToolReceipt.objects.select_related("call").defer("call__reads")
    rows = rows.filter(status="indeterminate", call__run__project_id__in=project_ids)
    return [_tool(row, row.call.run_id) for row in rows.order_by("-id")[:limit]]


def calls_of_run(*, run_id: uuid.UUID, limit: int, receipts: int) -> list[CallEntry]:
    """The newest calls of a Run, newest first, each with its first ``receipts`` Tool receipts; two statements."""
    calls = list(_calls().filter(run_id=run_id).order_by("-id")[:limit])
    by_call: dict[uuid.UUID, list[ToolReceipt]] = {call.pk: [] for call in calls}
    for receipt in ToolReceipt.objects.filter(call__in=by_call).order_by("id")[: limit * receipts]:
        if len(by_call[receipt.call_id]) < receipts:
            by_call[receipt.call_id].append(receipt)
    return [_call(call, by_call[call.pk]) for call in calls]
