"""Running a Tool for the agent that owns a call: once, under a lease, its State change with its receipt (A3, A4)."""

from __future__ import annotations

import datetime as dt
import functools
import logging
import uuid
from dataclasses import dataclass
from typing import Any

from django.db import connection, connections, transaction

from apps.agents import contracts
from apps.agents.domain.deciding import KnownToolCall, decide_known_tool_call, require_open, require_room
from apps.agents.domain.statuses import ToolStatus
from apps.agents.models import AgentCall, ToolReceipt
from apps.agents.selectors.calls import facts_of, known_receipt, task_in
from apps.agents.services import leases
from apps.agents.services.claiming import require_ownership
from apps.agents.services.closing import find_punctual_call, settle_activity
from apps.agents.services.holding import hold_call, hold_instance, hold_open_call
from apps.agents.services.receipts import result_of, settled_event, started_event
from apps.core import clock, conf, json_text
from apps.core.caller import Caller
from apps.core.database import database_time_after, for_update, surely
from apps.core.errors import ErrorCode, Issue, LoomError, invalid_request
from apps.core.failpoints import Failpoint, reach
from apps.core.ids import new_id
from apps.looms.authoring.tools import Tool
from apps.looms.loaded import LoadedLoom
from apps.looms.services.releases import load_release
from apps.looms.tool_calls import ToolInput, ToolOutput, check_arguments, run_tool
from apps.runs.services.agent_steps import note
from apps.runs.services.changes import log_json, reads_json
from apps.runs.services.executing import LedgerReader, off_the_loop
from apps.runs.services.worker import count_lost_thread

logger = logging.getLogger("loomsvc.agents")


@dataclass(frozen=True, slots=True)
class Started:
    """A Tool call whose receipt is stored as running: this thread, and no other, runs it."""

    receipt: ToolReceipt
    call: AgentCall
    project_id: uuid.UUID
    state: Any
    input: Any
    is_end_tool: bool


def call_agent_tool(*, caller: Caller, request: contracts.CallAgentTool, now: dt.datetime) -> contracts.ToolCalled:
    """Run one Tool, or give the receipt of the same call made before.  Order of checks as in A3."""
    call = find_punctual_call(caller=caller, reference=request, now=now)
    require_ownership(call, caller=caller, owner_token=request.owner_token)
    asked = KnownToolCall(request.tool_id, json_text.digest(request.input))
    known = _same_or_conflict(call, request, asked)
    if known is not None:
        return result_of(known, call)
    require_open(facts_of(call))
    loom = load_release(call.run.release_digest)
    tool = _declared(loom, call, request)
    is_end_tool = tool.id == task_in(loom, call).end_tool
    started = _start(caller, request, asked, is_end_tool=is_end_tool, now=now)
    if isinstance(started, ToolReceipt):
        return result_of(started, call)
    reach(Failpoint.AFTER_CLAIM)
    # Nothing of the ledger is held while an author's code runs, a connection neither.
    connection.close()
    with leases.in_hand(started.receipt.pk):
        output = _run(started, loom, tool, request.input)
        if output.abandoned:
            count_lost_thread()
        settled = _settle_surely(started, output)
    return result_of(settled, call)


def _same_or_conflict(call: AgentCall, request: contracts.CallAgentTool, asked: KnownToolCall) -> ToolReceipt | None:
    known = known_receipt(call, request.tool_call_id)
    if known is not None:
        decide_known_tool_call(KnownToolCall(known.tool_id, known.input_digest), asked)
    return known


def _declared(loom: LoadedLoom, call: AgentCall, request: contracts.CallAgentTool) -> Tool:
    """The Tool, if the task declares it and the input is its own."""
    task = task_in(loom, call)
    tool = task.tool(request.tool_id)
    if tool is None:
        ids = ", ".join(declared.id for declared in task.tools) or "none"
        raise invalid_request(
            "CallAgentTool", [Issue("choice", "/toolId", f"Use a Tool that the task declares: {ids}.")]
        )
    issues = check_arguments(tool, request.input, max_bytes=conf.settings().max_value_bytes)
    if issues:
        raise invalid_request(f"Tool {tool.id}", [Issue(i.code, f"/input{i.path}", i.suggestion) for i in issues])
    return tool


def _start(
    caller: Caller,
    request: contracts.CallAgentTool,
    asked: KnownToolCall,
    *,
    is_end_tool: bool,
    now: dt.datetime,
) -> Started | ToolReceipt:
    """Store the running receipt, everything checked once more under the locks; or the one that was first."""
    with transaction.atomic():
        hold_instance()
        held, call = hold_call(caller=caller, reference=request)
        known = _same_or_conflict(call, request, asked)
        if known is not None:
            return known
        facts = facts_of(call)
        require_open(facts)
        require_room(facts)
        assert held is not None, "an open call is what its Run waits for"
        receipt = ToolReceipt.objects.create(
            id=new_id(),
            call=call,
            tool_call_id=request.tool_call_id,
            tool_id=asked.tool_id,
            input_digest=asked.input_digest,
            status=ToolStatus.RUNNING,
            created_at=held.moment(now),
            lease_expires_at=database_time_after(conf.settings().lease_seconds),
        )
        call.receipts_made += 1
        call.save(update_fields=["receipts_made"])
        note(held, started_event(receipt, call, request.input), now=now)
        return Started(receipt, call, held.project_id, held.state, held.input, is_end_tool)


def _run(started: Started, loom: LoadedLoom, tool: Tool, arguments: dict[str, Any]) -> ToolOutput:
    assert not connection.in_atomic_block, "a Tool never runs inside a transaction"

    def cancelled() -> bool:
        running = ToolReceipt.objects.filter(pk=started.receipt.pk, status=ToolStatus.RUNNING)
        return not off_the_loop(running.exists)

    return run_tool(
        ToolInput(
            run_id=str(started.call.run_id),
            call_id=str(started.call.pk),
            tool_call_id=started.receipt.tool_call_id,
            loom=loom,
            stage=started.call.stage,
            tool=tool,
            arguments=arguments,
            input=started.input,
            state=started.state,
            results=LedgerReader(started.project_id),
            cancelled=cancelled,
            max_value_bytes=conf.settings().max_value_bytes,
            thread_done=connections.close_all,
        )
    )


def _settle_surely(started: Started, output: ToolOutput) -> ToolReceipt:
    """Settle, trying again while the database is away, until the lease would have run out."""
    return surely(functools.partial(_settle, started, output), seconds=conf.settings().lease_seconds)


def _settle(started: Started, output: ToolOutput) -> ToolReceipt:
    """Receipt and State in one transaction, if the receipt is running and the call open (A4)."""
    now = clock.now()
    with transaction.atomic():
        found = hold_open_call(started.call.pk, started.call.run_id)
        receipt = for_update(ToolReceipt.objects.filter(pk=started.receipt.pk)).first()
        if receipt is None:
            # Retention took the Run while its Tool went on: nobody is left to tell.
            return started.receipt
        if receipt.status != ToolStatus.RUNNING or found is None:
            settle_activity(receipt)
            return receipt
        held, call = found
        receipt.settled_at = max(held.moment(now), receipt.created_at)
        receipt.lease_expires_at = None
        if output.error is None:
            receipt.status, receipt.output = ToolStatus.COMPLETED, output.output
        else:
            receipt.status = ToolStatus.FAILED
            receipt.error = LoomError(ErrorCode.TOOL_FAILED, output.error).to_wire()
        receipt.save()
        completed = receipt.status == ToolStatus.COMPLETED
        call.reads = [*call.reads, *(read for read in reads_json(output.reads) if read not in call.reads)]
        call.tools_closed = call.tools_closed or (completed and started.is_end_tool)
        call.save(update_fields=["reads", "tools_closed"])
        note(
            held,
            settled_event(receipt, call, log_json(output.log)),
            now=now,
            state=output.state,
            state_changed=output.state_changed,
        )
        reach(Failpoint.AFTER_EFFECT_BEFORE_COMMIT)
        return receipt
