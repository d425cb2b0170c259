"""Appending to a Run's numbered history (R16)."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from apps.ledger.models import Event


@dataclass(frozen=True, slots=True)
class NewEvent:
    """What happened: a type from the closed list of the app that makes it, and its data."""

    type: str
    data: dict[str, Any] = field(default_factory=dict)


def remove_events(*, run_ids: Sequence[uuid.UUID]) -> None:
    """Forget the history of Runs that retention removes (R17)."""
    Event.objects.filter(run_id__in=run_ids).delete()


def append_events(*, run_id: uuid.UUID, after: int, events: Sequence[NewEvent], at: dt.datetime) -> int:
    """Store ``events`` as numbers ``after + 1`` on; returns the last number.

    The caller holds the Run's row lock and keeps the returned number on it.
    """
    Event.objects.bulk_create(
        Event(run_id=run_id, seq=after + number, type=event.type, at=at, data=event.data)
        for number, event in enumerate(events, start=1)
    )
    return after + len(events)
