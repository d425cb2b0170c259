"""What a Run wrote, for an operator."""

from __future__ import annotations

import uuid

from apps.core import clock
from apps.results.contracts import RecordDetail, RevisionDetail
from apps.results.models import ArtifactRevision, Record


def revisions_of_run(*, run_id: uuid.UUID, limit: int) -> list[RevisionDetail]:
    """The newest Artifact revisions that a Run wrote, removals among them, newest first."""
    rows = ArtifactRevision.objects.filter(run_id=run_id).order_by("-id")
    return [
        RevisionDetail(
            artifact_id=row.artifact_id_then,
            revision=row.revision,
            removed=row.removed,
            data=row.data,
            digest=row.digest,
            run_id=str(row.run_id),
            created_at=clock.to_wire(row.created_at),
        )
        for row in rows[:limit]
    ]


def records_of_run(*, run_id: uuid.UUID, limit: int) -> list[RecordDetail]:
    """The newest Records of a Run, newest first."""
    rows = Record.objects.filter(run_id=run_id).order_by("-id")
    return [
        RecordDetail(
            record_id=row.record_id,
            loom_name=row.loom_name,
            stage_name=row.stage_name,
            data=row.data,
            run_id=str(row.run_id),
            created_at=clock.to_wire(row.created_at),
        )
        for row in rows[:limit]
    ]
