"""Reads of a Run's numbered history."""

from __future__ import annotations

import uuid

from apps.core import clock
from apps.ledger.contracts import EventView
from apps.ledger.models import Event


def events_after(*, run_id: uuid.UUID, seq: int, limit: int) -> list[EventView]:
    """At most ``limit`` events of a Run with numbers greater than ``seq``, in order."""
    rows = Event.objects.filter(run_id=run_id, seq__gt=seq).order_by("seq")[:limit]
    return [
        EventView(run_id=str(row.run_id), seq=row.seq, type=row.type, at=clock.to_wire(row.at), data=row.data)
        for row in rows
    ]
