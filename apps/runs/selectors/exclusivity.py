"""Which Run an exclusive Loom has at present (R8)."""

from __future__ import annotations

import uuid

from apps.runs.domain.statuses import OPEN
from apps.runs.models import Run


def open_run(*, project_id: uuid.UUID, loom_name: str) -> uuid.UUID | None:
    """A Run of this Loom that has not ended."""
    rows = Run.objects.filter(project_id=project_id, loom_name=loom_name, status__in=OPEN)
    # Any of them, in no order: sorted by id, all that have ended might be read before one is found.
    return next(iter(rows.order_by().values_list("id", flat=True)[:1]), None)
