"""What a Run wrote, for an operator."""

from __future__ import annotations

import uuid

from apps.results.contracts import RecordDetail, RevisionDetail
from apps.results.models import ArtifactRevision, Record
from apps.results.selectors.results import record_detail, revision_detail


def revisions_of_run(*, run_id: uuid.UUID, limit: int) -> list[RevisionDetail]:
    """The newest Artifact revisions that a Run wrote, removals among them, newest first."""
    rows = ArtifactRevision.objects.filter(run_id=run_id).order_by("-id")
    return [revision_detail(row) for row in rows[:limit]]


def records_of_run(*, run_id: uuid.UUID, limit: int) -> list[RecordDetail]:
    """The newest Records of a Run, newest first."""
    rows = Record.objects.filter(run_id=run_id).order_by("-id")
    return [record_detail(row) for row in rows[:limit]]
