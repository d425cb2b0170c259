"""Reads of Artifacts and Records; each is one statement."""

from __future__ import annotations

import uuid

from django.db.models import F, Q, QuerySet

from apps.core import clock, cursors
from apps.results.contracts import (
    ArtifactDetail,
    ArtifactMetadata,
    ArtifactPage,
    ListArtifacts,
    ListRevisions,
    RecordDetail,
    RevisionDetail,
    RevisionList,
)
from apps.results.models import ArtifactRevision, Record


def _standing(project_id: uuid.UUID) -> QuerySet[ArtifactRevision]:
    """The present revision of each place in the Project at which something stands."""
    return ArtifactRevision.objects.select_related("artifact").filter(
        artifact__project_id=project_id, artifact__artifact_id__isnull=False, revision=F("artifact__revision")
    )


def _metadata(row: ArtifactRevision) -> dict[str, object]:
    place = row.artifact
    assert place.created_at is not None and place.updated_at is not None
    return {
        "artifact_id": row.artifact_id_then,
        "loom_name": place.loom_name,
        "stage_name": place.stage_name,
        "revision": row.revision,
        "run_id": str(row.run_id),
        "created_at": clock.to_wire(place.created_at),
        "updated_at": clock.to_wire(place.updated_at),
    }


def _detail(row: ArtifactRevision | None) -> ArtifactDetail | None:
    return None if row is None else ArtifactDetail.model_validate({**_metadata(row), "data": row.data})


def artifact_by_id(*, project_id: uuid.UUID, artifact_id: str) -> ArtifactDetail | None:
    """The Artifact with this id, as it stands now."""
    return _detail(_standing(project_id).filter(artifact__artifact_id=artifact_id).first())


def artifact_at(*, project_id: uuid.UUID, loom_name: str, stage_name: str) -> ArtifactDetail | None:
    """What stands at a place now."""
    rows = _standing(project_id).filter(artifact__loom_name=loom_name, artifact__stage_name=stage_name)
    return _detail(rows.first())


def list_artifacts(*, project_id: uuid.UUID, query: ListArtifacts) -> ArtifactPage:
    """One keyset page ordered by ``artifactId``."""
    filters = {"loomName": query.loom_name, "stageName": query.stage_name}
    after = cursors.decode("list_artifacts", filters, query.cursor, str)
    rows = _standing(project_id).defer("data").order_by("artifact__artifact_id")
    if query.loom_name is not None:
        rows = rows.filter(artifact__loom_name=query.loom_name)
    if query.stage_name is not None:
        rows = rows.filter(artifact__stage_name=query.stage_name)
    if after is not None:
        rows = rows.filter(artifact__artifact_id__gt=after)
    page = list(rows[: query.limit + 1])
    shown = page[: query.limit]
    more = len(page) > query.limit
    return ArtifactPage(
        data=[ArtifactMetadata.model_validate(_metadata(row)) for row in shown],
        next_cursor=cursors.encode("list_artifacts", filters, shown[-1].artifact_id_then) if more else None,
    )


def list_revisions(*, project_id: uuid.UUID, query: ListRevisions) -> RevisionList:
    """One page of the kept revisions of whatever stood under ``artifactId``, newest first."""
    filters = {"artifactId": query.artifact_id}
    after = cursors.decode("list_artifact_revisions", filters, query.cursor, _revision_and_id)
    rows = ArtifactRevision.objects.filter(
        artifact__project_id=project_id, artifact_id_then=query.artifact_id
    ).order_by("-revision", "-id")
    if after is not None:
        revision, last_id = after
        rows = rows.filter(Q(revision__lt=revision) | Q(revision=revision, id__lt=last_id))
    page = list(rows[: query.limit + 1])
    shown = page[: query.limit]
    more = len(page) > query.limit
    return RevisionList(
        revisions=[revision_detail(row) for row in shown],
        next_cursor=cursors.encode("list_artifact_revisions", filters, f"{shown[-1].revision}/{shown[-1].pk}")
        if more
        else None,
    )


def _revision_and_id(key: str) -> tuple[int, uuid.UUID]:
    """An id may have stood at several places, each of which counts its revisions."""
    revision, _, last_id = key.partition("/")
    return cursors.number(revision), uuid.UUID(last_id)


def revision_detail(row: ArtifactRevision) -> RevisionDetail:
    """One revision as it is shown; a removal is one too."""
    return RevisionDetail(
        artifact_id=row.artifact_id_then,
        revision=row.revision,
        removed=row.removed,
        data=row.data,
        digest=row.digest,
        run_id=str(row.run_id),
        created_at=clock.to_wire(row.created_at),
    )


def record_detail(row: Record) -> RecordDetail:
    """A Record as it is shown."""
    return RecordDetail(
        record_id=row.record_id,
        loom_name=row.loom_name,
        stage_name=row.stage_name,
        data=row.data,
        run_id=str(row.run_id),
        created_at=clock.to_wire(row.created_at),
    )


def record_by_id(*, project_id: uuid.UUID, record_id: str) -> RecordDetail | None:
    """The Record with this id."""
    row = Record.objects.filter(project_id=project_id, record_id=record_id).first()
    return row and record_detail(row)


def latest_record(*, project_id: uuid.UUID, loom_name: str, stage_name: str) -> RecordDetail | None:
    """The newest Record of a Stage."""
    rows = Record.objects.filter(project_id=project_id, loom_name=loom_name, stage_name=stage_name)
    row = rows.order_by("-id").first()
    return row and record_detail(row)
