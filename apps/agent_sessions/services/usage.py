"""What Projects used of models in a day: of a session when it ended, of an Agent Step as it goes on (B3, B8)."""

from __future__ import annotations

import datetime as dt
import uuid
from dataclasses import asdict

from django.db.models import F

from apps.agent_sessions.models import ModelUsage
from apps.agent_sessions.runtime.ended import Usage
from apps.core.ids import new_id


def count_usage(*, project_id: uuid.UUID, model: str, usage: Usage, now: dt.datetime, sessions: int = 1) -> None:
    """Add ``usage`` to that of the day of ``now``; part of the transaction that stores what used it."""
    day = now.astimezone(dt.UTC).date()
    rows = ModelUsage.objects.filter(day=day, project_id=project_id, model=model)
    added = {name: F(name) + number for name, number in {"sessions": sessions, **asdict(usage)}.items()}
    if not rows.update(**added):
        row = ModelUsage(id=new_id(), project_id=project_id, model=model, day=day)
        ModelUsage.objects.bulk_create([row], ignore_conflicts=True)
        rows.update(**added)
