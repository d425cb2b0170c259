"""Reads of a Run's numbered history."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Sequence
from typing import Any

from apps.core import clock
from apps.ledger.contracts import EventView
from apps.ledger.models import Event


def events_after(*, run_id: uuid.UUID, seq: int, limit: int) -> list[EventView]:
    """At most ``limit`` events of a Run with numbers greater than ``seq``, in order."""
    return [_view(row) for row in Event.objects.filter(run_id=run_id, seq__gt=seq).order_by("seq")[:limit]]


def events_before(*, run_id: uuid.UUID, seq: int | None, limit: int) -> list[EventView]:
    """At most ``limit`` events of a Run with numbers less than ``seq`` (``None``: the last ones), newest first."""
    rows = Event.objects.filter(run_id=run_id).order_by("-seq")
    return [_view(row) for row in (rows if seq is None else rows.filter(seq__lt=seq))[:limit]]


def latest_of_types(
    *, run_id: uuid.UUID, types: Sequence[str], limit: int
) -> list[tuple[str, dt.datetime, dict[str, Any]]]:
    """Type, time and data of a Run's latest events of these types, at most ``limit``, in order."""
    rows = Event.objects.filter(run_id=run_id, type__in=types).order_by("-seq").values_list("type", "at", "data")
    return list(reversed(rows[:limit]))


def _view(row: Event) -> EventView:
    return EventView(run_id=str(row.run_id), seq=row.seq, type=row.type, at=clock.to_wire(row.at), data=row.data)
