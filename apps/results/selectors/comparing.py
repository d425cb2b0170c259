"""The revisions of an Artifact to choose from, and the data of the chosen ones."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from apps.core.errors import not_found
from apps.results.models import ArtifactRevision


@dataclass(frozen=True, slots=True)
class RevisionHead:
    """A revision without its data; an id may have stood at several places, each with revisions of its own."""

    key: uuid.UUID
    revision: int
    loom_name: str
    stage_name: str
    removed: bool
    digest: str
    run_id: uuid.UUID
    created_at: dt.datetime


_HEAD = (
    "id", "revision", "artifact__loom_name", "artifact__stage_name", "removed", "digest", "run_id", "created_at",
)  # fmt: skip


def revision_heads(*, project_id: uuid.UUID, artifact_id: str, limit: int) -> list[RevisionHead]:
    """The latest revisions of whatever stood under this id, the newest first; ``NOT_FOUND`` when nothing ever did."""
    rows = ArtifactRevision.objects.filter(artifact__project_id=project_id, artifact_id_then=artifact_id)
    found = [RevisionHead(*row) for row in rows.order_by("-revision", "-id").values_list(*_HEAD)[:limit]]
    if not found:
        raise not_found("Artifact", artifact_id)
    return found


def revisions_data(*, project_id: uuid.UUID, artifact_id: str, keys: Collection[uuid.UUID]) -> dict[uuid.UUID, Any]:
    """The data of these revisions of the Artifact, as far as there are such."""
    rows = ArtifactRevision.objects.filter(
        pk__in=keys, artifact__project_id=project_id, artifact_id_then=artifact_id, removed=False
    )
    return dict(rows.values_list("id", "data"))
