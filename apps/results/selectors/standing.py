"""Artifacts as the engine compares them: what stands now, and what a revision held (M8)."""

from __future__ import annotations

import uuid
from collections.abc import Collection
from dataclasses import dataclass

from django.db.models import F

from apps.results.models import ArtifactRevision


@dataclass(frozen=True, slots=True)
class Standing:
    """A revision of an Artifact, without its data; ``removed`` ones hold none."""

    artifact_id: str
    loom_name: str
    stage_name: str
    revision: int
    digest: str
    removed: bool
    run_id: uuid.UUID


_COLUMNS = (
    "artifact_id_then",
    "artifact__loom_name",
    "artifact__stage_name",
    "revision",
    "digest",
    "removed",
    "run_id",
)


def standing_artifacts(*, project_id: uuid.UUID, artifact_ids: Collection[str]) -> dict[str, Standing]:
    """The present revision of each of these Artifacts that stands; one statement."""
    if not artifact_ids:
        return {}
    rows = ArtifactRevision.objects.filter(
        artifact__project_id=project_id,
        artifact__artifact_id__in=list(artifact_ids),
        revision=F("artifact__revision"),
    )
    return {row[0]: Standing(*row) for row in rows.order_by().values_list(*_COLUMNS)}


def revisions_of(
    *, project_id: uuid.UUID, wanted: Collection[tuple[str, int]]
) -> dict[tuple[str, str, str, int], Standing]:
    """Kept revisions by (artifactId, loomName, stageName, revision); one statement.

    ``wanted`` are pairs (artifactId, revision).  More may be found than was asked for.
    """
    if not wanted:
        return {}
    rows = ArtifactRevision.objects.filter(
        artifact__project_id=project_id,
        artifact_id_then__in=list({artifact_id for artifact_id, _ in wanted}),
        revision__in=list({revision for _, revision in wanted}),
    )
    found = (Standing(*row) for row in rows.order_by().values_list(*_COLUMNS))
    return {(one.artifact_id, one.loom_name, one.stage_name, one.revision): one for one in found}
