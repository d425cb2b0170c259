"""Closing a call: its ownership is void, and a Tool that still runs is indeterminate (R11–R13, A9, A11)."""

from __future__ import annotations

import datetime as dt
import uuid

from django.db import transaction

from apps.agents import contracts
from apps.agents.domain.statuses import RECEIPT_SECONDS, ClosedAs, ToolStatus
from apps.agents.models import AgentCall, ToolReceipt
from apps.agents.selectors.calls import find_call, is_overdue
from apps.agents.services.holding import hold_instance, hold_open_call
from apps.agents.services.receipts import settled_event
from apps.core.caller import Caller
from apps.core.database import database_time_after, for_update
from apps.ledger.services.events import NewEvent
from apps.runs.domain.facts import RunError
from apps.runs.domain.statuses import RunErrorCode
from apps.runs.services.agent_steps import fail_agent_step


def close_call(call: AgentCall, closed_as: ClosedAs, *, now: dt.datetime, digest: str = "") -> list[NewEvent]:
    """Close a locked, open call; what became of a Tool that was running.

    Its receipts stay in the protocol until half an hour after the last activity has settled (A5): a
    function that still runs settles when it returns, or when its lease ends.
    """
    running = call.receipts.filter(status=ToolStatus.RUNNING).first()
    events = []
    if running is not None:
        cut_off(running, now=now)
        events.append(settled_event(running, call))
    call.closed_as = closed_as
    call.closed_at = now
    call.closing_digest = digest
    call.deadline_at = None
    if running is None:
        end_receipts_later(call)
    call.save(update_fields=["closed_as", "closed_at", "closing_digest", "deadline_at", "receipts_until"])
    return events


def cut_off(receipt: ToolReceipt, *, now: dt.datetime) -> None:
    """A Tool call whose end nobody will see: it is never run again (A11)."""
    receipt.status = ToolStatus.INDETERMINATE
    receipt.settled_at = max(now, receipt.created_at)
    receipt.save(update_fields=["status", "settled_at"])


def end_receipts_later(call: AgentCall) -> None:
    """Everything of a closed call has settled: from now on its receipts have half an hour."""
    call.receipts_until = database_time_after(RECEIPT_SECONDS)


def settle_activity(receipt: ToolReceipt) -> None:
    """The function behind a locked receipt has returned, or nobody keeps its lease: it does nothing any more."""
    receipt.lease_expires_at = None
    receipt.save(update_fields=["lease_expires_at"])
    call = for_update(AgentCall.objects.filter(pk=receipt.call_id)).get()
    outstanding = call.receipts.filter(lease_expires_at__isnull=False).exists()
    if call.closed_as and call.receipts_until is None and not outstanding:
        end_receipts_later(call)
        call.save(update_fields=["receipts_until"])


def cancel_open_call(run_id: uuid.UUID, *, now: dt.datetime) -> list[NewEvent]:
    """The Run, locked, is being cancelled: its open call is void."""
    call = for_update(AgentCall.objects.filter(run_id=run_id, closed_as="")).first()
    return [] if call is None else close_call(call, ClosedAs.CANCELLED, now=now)


def interrupt_claimed_calls(*, ended: uuid.UUID, now: dt.datetime) -> None:
    """A new instance is being opened: claimed calls end with the old one, unclaimed ones rest (R13)."""
    claimed = AgentCall.objects.filter(closed_as="").exclude(claim_digest="").order_by("run_id")
    for call_id, run_id in list(claimed.values_list("id", "run_id")):
        _end(
            call_id,
            run_id,
            ClosedAs.INTERRUPTED,
            RunError(
                RunErrorCode.RUN_INTERRUPTED,
                "The service was restarted while an agent worked at this Step; it is not started again. Look at what "
                "the agent did before you start a new Run.",
            ),
            now=now,
            instance_id=ended,
        )


def time_out(call_id: uuid.UUID, run_id: uuid.UUID, *, now: dt.datetime, instance_id: uuid.UUID) -> bool:
    """The Step's time is over and nobody has completed it (R12); False when it closed meanwhile."""
    seconds = AgentCall.objects.values_list("timeout_seconds", flat=True).get(pk=call_id)
    error = RunError(RunErrorCode.STEP_TIMEOUT, f"No agent completed this Step within its timeout of {seconds:g} s.")
    return _end(call_id, run_id, ClosedAs.FAILED, error, now=now, instance_id=instance_id)


def find_punctual_call(*, caller: Caller, reference: contracts.TaskReference, now: dt.datetime) -> AgentCall:
    """The call, for work at it; one whose time is over is ended first, as the next sweep would (R12)."""
    call = find_call(caller=caller, reference=reference)
    if not is_overdue(call):
        return call
    with transaction.atomic():
        time_out(call.pk, call.run_id, now=now, instance_id=hold_instance())
    return find_call(caller=caller, reference=reference)


def _end(
    call_id: uuid.UUID,
    run_id: uuid.UUID,
    closed_as: ClosedAs,
    error: RunError,
    *,
    now: dt.datetime,
    instance_id: uuid.UUID,
) -> bool:
    found = hold_open_call(call_id, run_id)
    if found is None:
        return False
    held, call = found
    events = close_call(call, closed_as, now=held.moment(now))
    fail_agent_step(held, error, closed_as=closed_as, events=events, now=now, instance_id=instance_id)
    return True
