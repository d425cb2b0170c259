"""What nobody rang for in agent calls: Tools that were cut off, Steps out of time, receipts out of the protocol."""

from __future__ import annotations

import datetime as dt
import logging

from django.db import transaction

from apps.agents.domain.statuses import ToolStatus
from apps.agents.models import AgentCall, ToolReceipt
from apps.agents.services.closing import cut_off, settle_activity, time_out
from apps.agents.services.holding import hold_instance
from apps.agents.services.receipts import settled_event
from apps.core.database import database_now, for_update
from apps.core.failpoints import Failpoint, reach
from apps.runs.services.agent_steps import hold_waiting, note

logger = logging.getLogger("loomsvc.sweep")

_BATCH = 100
_RECEIPTS_BATCH = 1000


def end_expired_tool_calls(*, now: dt.datetime) -> int:
    """Nobody renews these any more: what still counted as running is indeterminate (A11)."""
    expired = ToolReceipt.objects.filter(lease_expires_at__lt=database_now()).order_by("lease_expires_at")
    found = list(expired.values_list("id", "call__run_id")[:_BATCH])
    for receipt_id, run_id in found:
        with transaction.atomic():
            held = hold_waiting(run_id)
            rows = ToolReceipt.objects.filter(pk=receipt_id, lease_expires_at__lt=database_now())
            receipt = for_update(rows.select_related("call")).first()
            if receipt is None:
                continue
            if receipt.status == ToolStatus.RUNNING:
                cut_off(receipt, now=now)
                assert held is not None, "a Tool runs only while its Run waits for the call"
                note(held, settled_event(receipt, receipt.call), now=now)
                logger.warning("Tool call %s of Run %s was cut off", receipt.pk, run_id)
            settle_activity(receipt)
            reach(Failpoint.IN_SWEEP)
    return len(found)


def end_overdue_calls(*, now: dt.datetime) -> int:
    """Agent Steps past their timeout (R12)."""
    overdue = AgentCall.objects.filter(closed_as="", deadline_at__lt=database_now()).order_by("deadline_at")
    ended = 0
    for call_id, run_id in list(overdue.values_list("id", "run_id")[:_BATCH]):
        with transaction.atomic():
            ended += time_out(call_id, run_id, now=now, instance_id=hold_instance())
            reach(Failpoint.IN_SWEEP)
    return ended


def forget_receipts(*, now: dt.datetime) -> int:
    """Receipts whose time in the protocol is over; events keep what they said (A5)."""
    over = ToolReceipt.objects.filter(call__receipts_until__lt=database_now()).order_by("call__receipts_until")
    ids = list(over.values_list("id", flat=True)[:_RECEIPTS_BATCH])
    if ids:
        ToolReceipt.objects.filter(pk__in=ids).delete()
    return len(ids)
