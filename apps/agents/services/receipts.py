"""Tool receipts as they are shown and as events keep them (A3, A5)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from apps.agents import contracts
from apps.agents.domain.statuses import ToolStatus
from apps.agents.models import AgentCall, ToolReceipt
from apps.core import clock
from apps.core.errors import ErrorCode, LoomError
from apps.ledger.services.events import NewEvent
from apps.runs.domain.statuses import EventType


def view_of(receipt: ToolReceipt, call: AgentCall) -> contracts.ToolReceiptView:
    """The receipt on the wire."""
    return contracts.ToolReceiptView(
        run_id=str(call.run_id),
        call_id=str(call.pk),
        tool_call_id=receipt.tool_call_id,
        tool_id=receipt.tool_id,
        status=receipt.status,  # type: ignore[arg-type]  # ToolStatus, as its choices have it
        created_at=clock.to_wire(receipt.created_at),
        settled_at=clock.to_wire(receipt.settled_at) if receipt.settled_at else None,
    )


def result_of(receipt: ToolReceipt, call: AgentCall) -> contracts.ToolCalled:
    """What a call of this Tool answers; a failed one is raised with its receipt (A3)."""
    view = view_of(receipt, call)
    if receipt.status == ToolStatus.FAILED:
        refusal = LoomError.from_wire(receipt.error)
        refusal.attachments = {"receipt": view.to_wire()}
        raise refusal
    error = None
    if receipt.status == ToolStatus.INDETERMINATE:
        error = LoomError(
            ErrorCode.TOOL_FAILED,
            "This Tool call was cut off, and what it did is unknown; it is not run again. Look at what there is before "
            "you go on, under a new toolCallId.",
        ).to_wire()
    return contracts.ToolCalled(receipt=view, output=receipt.output, error=error)


def started_event(receipt: ToolReceipt, call: AgentCall, arguments: Any) -> NewEvent:
    """The event of a Tool call that begins."""
    return NewEvent(EventType.TOOL_CALL_STARTED, {**_names(receipt, call), "input": arguments})


def settled_event(receipt: ToolReceipt, call: AgentCall, log: Sequence[dict[str, str]] = ()) -> NewEvent:
    """The event of a Tool call that ended: what the console and Mirrors keep of it (A5)."""
    data = {**_names(receipt, call), "status": receipt.status, "output": receipt.output, "error": receipt.error}
    shown = {name: value for name, value in data.items() if value is not None}
    return NewEvent(EventType.TOOL_CALL_SETTLED, {**shown, **({"log": list(log)} if log else {})})


def _names(receipt: ToolReceipt, call: AgentCall) -> dict[str, Any]:
    return {"callId": str(call.pk), "toolCallId": receipt.tool_call_id, "toolId": receipt.tool_id}
