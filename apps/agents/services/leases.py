"""Keeping the leases of the Tool calls that this process has in hand (A11)."""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection, transaction

from apps.agents.models import ToolReceipt
from apps.core import conf
from apps.core.database import database_now, database_time_after, for_update

logger = logging.getLogger("loomsvc.agents")

_in_hand: set[uuid.UUID] = set()
_lock = threading.Lock()
_thread: threading.Thread | None = None
#: Set when nothing is in hand any more, so that the thread need not wait for its next beat.
_idle = threading.Event()


@contextmanager
def in_hand(receipt_id: uuid.UUID) -> Iterator[None]:
    """Renew the Tool call's lease for as long as the block runs."""
    _take(receipt_id)
    try:
        yield
    finally:
        with _lock:
            _in_hand.discard(receipt_id)
            if not _in_hand:
                _idle.set()


def _take(receipt_id: uuid.UUID) -> None:
    global _thread
    with _lock:
        _in_hand.add(receipt_id)
        _idle.clear()
        if _thread is None or not _thread.is_alive():
            _thread = threading.Thread(target=_beat, name="tool-leases", daemon=True)
            _thread.start()


def _beat() -> None:
    """Three beats a lease while anything is in hand; then this thread is over."""
    global _thread
    while True:
        _idle.wait(conf.settings().lease_seconds / 3)
        with _lock:
            held = list(_in_hand)
            if not held:
                _thread = None
                return
        try:
            renew(held)
        except Exception as error:
            logger.warning("the leases of running Tools could not be renewed (%s)", type(error).__name__)
        finally:
            connection.close()


def renew(receipts: list[uuid.UUID]) -> int:
    """Keep these leases; one that has run out is not brought back.  Returns how many were kept."""
    with transaction.atomic():
        held = ToolReceipt.objects.filter(pk__in=receipts, lease_expires_at__gt=database_now())
        # In the order in which the opening of an instance closes calls, and with them locks receipts.
        ids = list(for_update(held.order_by("call__run_id", "id")).values_list("id", flat=True))
        return ToolReceipt.objects.filter(pk__in=ids).update(
            lease_expires_at=database_time_after(conf.settings().lease_seconds)
        )
