"""The Runs of a trace as a tree (M9)."""

from __future__ import annotations

import uuid
from typing import Any

from apps.core import clock
from apps.core.errors import not_found
from apps.runs import contracts
from apps.runs.domain.trees import in_tree_order
from apps.runs.models import Run

#: So many Runs of a trace are listed, the oldest.
MOST_RUNS = 1000

_COLUMNS = ("id", "status", "outcome", "boundary", "restored_from", "created_at", "finished_at")


def lineage_of(run_id: uuid.UUID, *, project_id: uuid.UUID | None = None) -> contracts.Lineage:
    """The Runs that share a trace and a Project with a Run, of ``project_id`` if it is given; two statements.

    Each Run comes before those that were made from it.  ``NOT_FOUND`` for an unknown Run.
    """
    rows = Run.objects.filter(pk=run_id)
    if project_id is not None:
        rows = rows.filter(project_id=project_id)
    run = rows.only("id", "trace_id", "project_id").first()
    if run is None:
        raise not_found("Run", str(run_id))
    same_trace = Run.objects.filter(project_id=run.project_id, trace_id=run.trace_id).order_by("id")
    found = list(same_trace.only(*_COLUMNS)[: MOST_RUNS + 1])
    listed = {str(row.pk): row for row in found[:MOST_RUNS]}
    parents = {key: row.restored_from["runId"] if row.restored_from else None for key, row in listed.items()}
    return contracts.Lineage(
        trace_id=str(run.trace_id),
        runs=[
            contracts.LineageEntry.model_validate({**_members(listed[key]), "parent_run_id": parent, "depth": depth})
            for key, parent, depth in in_tree_order(parents)
        ],
        truncated=len(found) > MOST_RUNS,
    )


def _members(row: Run) -> dict[str, Any]:
    return {
        "run_id": str(row.pk),
        "status": row.status,
        "outcome": row.outcome,
        "first_boundary": row.restored_from["boundary"] if row.restored_from else 0,
        "boundary": row.boundary,
        "restored_from": row.restored_from,
        "created_at": clock.to_wire(row.created_at),
        "finished_at": clock.to_wire(row.finished_at) if row.finished_at else None,
    }
