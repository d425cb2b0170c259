"""Artifacts and Records as a Mirror has them, read a few rows at a time (M1, M5)."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeVar

from django.db.models import F, Q

from apps.core import clock
from apps.results.models import ArtifactRevision, Record

#: Rows with data that are held at once, and keys that are asked for at once.
_ROWS, _KEYS = 10, 200
T = TypeVar("T")


@dataclass(frozen=True, slots=True, order=True)
class RevisionKey:
    """Where an Artifact's revision stood; ``key`` names the stored row."""

    loom_name: str
    stage_name: str
    revision: int
    artifact_id: str
    digest: str
    key: uuid.UUID


def batches(items: Iterable[T], size: int = _KEYS) -> Iterator[list[T]]:
    """``items`` some at a time, as many as one statement may ask for."""
    left = iter(items)
    while some := list(islice(left, size)):
        yield some


def revision_keys(*, project_id: uuid.UUID, wanted: Collection[tuple[str, str, str, int]]) -> list[RevisionKey]:
    """The kept ones of these revisions (loomName, stageName, artifactId, revision), in the order of their places."""
    found: list[RevisionKey] = []
    for some in batches(sorted(wanted)):
        rows = ArtifactRevision.objects.filter(
            artifact__project_id=project_id,
            artifact_id_then__in=list({one[2] for one in some}),
            revision__in=list({one[3] for one in some}),
        ).order_by()
        columns = (
            "artifact__loom_name", "artifact__stage_name", "revision", "artifact_id_then", "digest", "pk",
        )  # fmt: skip
        asked = set(some)
        found += [
            key
            for key in (RevisionKey(*row) for row in rows.values_list(*columns))
            if (key.loom_name, key.stage_name, key.artifact_id, key.revision) in asked
        ]
    return sorted(found)


def artifact_line(key: uuid.UUID) -> dict[str, Any]:
    """One revision with its data."""
    row = ArtifactRevision.objects.select_related("artifact").get(pk=key)
    return {
        "artifactId": row.artifact_id_then,
        "loomName": row.artifact.loom_name,
        "stageName": row.artifact.stage_name,
        "revision": row.revision,
        "removed": row.removed,
        "digest": row.digest,
        "data": row.data,
        "runId": str(row.run_id),
        "createdAt": clock.to_wire(row.created_at),
    }


def record_lines(*, project_id: uuid.UUID, record_ids: Collection[str]) -> Iterator[dict[str, Any]]:
    """These Records of the Project, ordered by id."""
    # Sorted here, since databases sort texts in ways of their own.
    for some in batches(sorted(record_ids), _ROWS):
        rows = Record.objects.filter(project_id=project_id, record_id__in=some).order_by()
        for row in sorted(rows, key=lambda row: row.record_id):
            yield {
                "recordId": row.record_id,
                "loomName": row.loom_name,
                "stageName": row.stage_name,
                "digest": row.digest,
                "data": row.data,
                "runId": str(row.run_id),
                "createdAt": clock.to_wire(row.created_at),
            }


def record_digests(*, project_id: uuid.UUID, record_ids: Collection[str]) -> dict[str, str]:
    """Record id → digest of its data, for those that the Project has."""
    found: dict[str, str] = {}
    for some in batches(record_ids):
        rows = Record.objects.filter(project_id=project_id, record_id__in=some).order_by()
        found.update(rows.values_list("record_id", "digest"))
    return found


@dataclass(frozen=True, slots=True)
class PlaceNow:
    """A place and what stands there: ``artifact_id``, ``digest`` and ``run_id`` are None when nothing does."""

    loom_name: str
    stage_name: str
    revision: int
    artifact_id: str | None
    digest: str | None
    run_id: uuid.UUID | None


def places_now(
    *, project_id: uuid.UUID, artifact_ids: Collection[str], places: Collection[tuple[str, str]]
) -> list[PlaceNow]:
    """These places, and wherever these Artifacts stand; places that never held anything are not among them."""
    found: dict[tuple[str, str], PlaceNow] = {}
    for ids in batches(sorted(artifact_ids)):
        _find(found, project_id, Q(artifact__artifact_id__in=ids))
    for some in batches(sorted(places)):
        near = Q(artifact__loom_name__in={loom for loom, _ in some}, artifact__stage_name__in={s for _, s in some})
        _find(found, project_id, near)
    return list(found.values())


def _find(found: dict[tuple[str, str], PlaceNow], project_id: uuid.UUID, near: Q) -> None:
    rows = ArtifactRevision.objects.filter(near, artifact__project_id=project_id, revision=F("artifact__revision"))
    columns = (
        "artifact__loom_name", "artifact__stage_name", "revision", "artifact__artifact_id", "digest", "run_id",
    )  # fmt: skip
    for loom, stage, revision, artifact_id, digest, run_id in rows.order_by().values_list(*columns):
        standing = (artifact_id, digest, run_id) if artifact_id is not None else (None, None, None)
        found[loom, stage] = PlaceNow(loom, stage, revision, *standing)
