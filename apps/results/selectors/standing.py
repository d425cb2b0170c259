"""Artifacts as the engine compares them: what stands now, and what a revision held (M8)."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from django.db.models import F
from django.db.models.functions import Length

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


@dataclass(frozen=True, slots=True)
class KeptData:
    """Where the ledger keeps data: ``key`` is for :func:`data_of`, ``size`` counts the characters of its JSON."""

    key: uuid.UUID
    size: int


def kept_data(*, project_id: uuid.UUID, wanted: Mapping[str, str]) -> dict[str, KeptData]:
    """For each artifactId the revision that held data of this digest, if there was one; one statement."""
    if not wanted:
        return {}
    rows = ArtifactRevision.objects.filter(
        artifact__project_id=project_id,
        artifact_id_then__in=list(wanted),
        digest__in=list(set(wanted.values())),
        removed=False,
    )
    found = rows.order_by("id").values_list("artifact_id_then", "digest", "id", Length("data"))
    return {
        artifact_id: KeptData(key, size) for artifact_id, digest, key, size in found if wanted[artifact_id] == digest
    }


def data_of(keys: Collection[uuid.UUID]) -> dict[uuid.UUID, Any]:
    """The data of these revisions; one statement."""
    if not keys:
        return {}
    return dict(ArtifactRevision.objects.filter(pk__in=list(keys)).order_by().values_list("pk", "data"))
