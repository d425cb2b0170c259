"""What nobody rang for in agent calls: Tools that were cut off, Steps out of time, receipts out of the protocol."""

from __future__ import annotations

import datetime as dt
import logging
import uuid
from collections.abc import Callable
from typing import Any

from django.db import transaction
from django.db.models import QuerySet

from apps.agents.domain.statuses import ToolStatus
from apps.agents.models import AgentCall, ToolReceipt
from apps.agents.services.closing import cut_off, settle_activity, time_out
from apps.agents.services.holding import hold_instance
from apps.agents.services.receipts import settled_event
from apps.core.database import DATABASE_TROUBLE, database_now, for_update
from apps.core.failpoints import Failpoint, reach
from apps.runs.services.agent_steps import hold_waiting, note

logger = logging.getLogger("loomsvc.sweep")

_BATCH = 100


def end_expired_tool_calls(*, now: dt.datetime) -> int:
    """Nobody renews these any more: what still counted as running is indeterminate (A11)."""
    expired = ToolReceipt.objects.filter(lease_expires_at__lt=database_now()).order_by("lease_expires_at")

    def end(receipt_id: uuid.UUID, run_id: uuid.UUID) -> bool:
        held = hold_waiting(run_id)
        rows = ToolReceipt.objects.filter(pk=receipt_id, lease_expires_at__lt=database_now())
        receipt = for_update(rows.select_related("call")).first()
        if receipt is None:
            return False
        if receipt.status == ToolStatus.RUNNING:
            cut_off(receipt, now=now)
            assert held is not None, "a Tool runs only while its Run waits for the call"
            note(held, settled_event(receipt, receipt.call), now=now)
            logger.warning("Tool call %s of Run %s was cut off", receipt.pk, run_id)
        settle_activity(receipt)
        return True

    return _each(expired.values_list("id", "call__run_id"), end)


def end_overdue_calls(*, now: dt.datetime) -> int:
    """Agent Steps past their timeout (R12)."""
    overdue = AgentCall.objects.filter(closed_as="", deadline_at__lt=database_now()).order_by("deadline_at")

    def end(call_id: uuid.UUID, run_id: uuid.UUID) -> bool:
        return time_out(call_id, run_id, now=now, instance_id=hold_instance())

    return _each(overdue.values_list("id", "run_id"), end)


def _each(rows: QuerySet[Any, tuple[uuid.UUID, uuid.UUID]], end: Callable[[uuid.UUID, uuid.UUID], bool]) -> int:
    """End each row, with its Run's id, in a transaction of its own; one that cannot be ended holds up no other."""
    ended = 0
    for row_id, run_id in list(rows[:_BATCH]):
        try:
            with transaction.atomic():
                ended += end(row_id, run_id)
                reach(Failpoint.IN_SWEEP)
        except DATABASE_TROUBLE:
            raise
        except Exception as error:
            logger.warning("the agent call of Run %s could not be swept (%s)", run_id, type(error).__name__)
    return ended


def forget_receipts(*, now: dt.datetime) -> int:
    """Receipts whose time in the protocol is over; events keep what they said (A5)."""
    over = AgentCall.objects.filter(receipts_until__lt=database_now(), receipts_made__gt=0).order_by("receipts_until")
    calls = list(over.values_list("id", flat=True)[:_BATCH])
    if not calls:
        return 0
    with transaction.atomic():
        gone, _ = ToolReceipt.objects.filter(call_id__in=calls).delete()
        # Whatever is left at nought is not looked at again, however many calls there have been.
        AgentCall.objects.filter(pk__in=calls).update(receipts_made=0)
    return gone
