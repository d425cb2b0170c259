"""Putting what a Mirror holds into a Project (M5).  Call these inside a transaction."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from apps.core import json_text
from apps.core.database import for_update
from apps.core.ids import new_id
from apps.results.models import Artifact, ArtifactRevision, Record
from apps.results.selectors.mirroring import batches


@dataclass(frozen=True, slots=True)
class NewArtifact:
    """What a place is to hold; ``removed``: nothing any more.  ``revision``: its number where it came from.

    ``digest`` is the one of ``data``; whoever read it has made sure.
    """

    artifact_id: str
    loom_name: str
    stage_name: str
    revision: int
    removed: bool
    data: Any
    digest: str
    run_id: uuid.UUID


@dataclass(frozen=True, slots=True)
class NewRecord:
    """A Record as it was, ``created_at`` included; ``digest`` is the one of ``data``."""

    record_id: str
    loom_name: str
    stage_name: str
    data: Any
    digest: str
    run_id: uuid.UUID
    created_at: dt.datetime


def hold_places(*, project_id: uuid.UUID, artifact_ids: Collection[str], places: Collection[tuple[str, str]]) -> None:
    """Make these places, and keep others from changing them, and where these Artifacts stand, until the end."""
    if not places:
        return
    new = [Artifact(project_id=project_id, loom_name=loom, stage_name=stage) for loom, stage in sorted(places)]
    Artifact.objects.bulk_create(new, ignore_conflicts=True)
    keys: list[uuid.UUID] = []
    for some in batches(sorted(artifact_ids)):
        mine = Artifact.objects.filter(project_id=project_id, artifact_id__in=some)
        keys += mine.order_by().values_list("pk", flat=True)
    for loom in sorted({loom for loom, _ in places}):
        for some in batches(sorted(stage for other, stage in places if other == loom)):
            mine = Artifact.objects.filter(project_id=project_id, loom_name=loom, stage_name__in=some)
            keys += mine.order_by().values_list("pk", flat=True)
    # In one order everywhere, and before anything is read that is decided by.
    list(for_update(Artifact.objects.filter(pk__in=keys).order_by("pk")).values_list("pk", flat=True))


def put_artifact(*, project_id: uuid.UUID, artifact: NewArtifact, now: dt.datetime) -> int:
    """Write it as a new revision of its place, which is held; the revision's number.

    The number is the one it had, where the place has not come to it yet, so that Code that remembers a revision
    finds it again.  What else stands there is removed first, by a revision of its own.
    """
    place = Artifact.objects.get(project_id=project_id, loom_name=artifact.loom_name, stage_name=artifact.stage_name)
    at = max(now, place.updated_at or now)
    written: list[ArtifactRevision] = []

    def revise(artifact_id: str, data: Any, digest: str, *, removed: bool) -> None:
        place.revision += 1
        written.append(
            ArtifactRevision(
                id=new_id(),
                artifact=place,
                revision=place.revision,
                artifact_id_then=artifact_id,
                data=data,
                digest=digest,
                removed=removed,
                run_id=artifact.run_id,
                created_at=at,
            )
        )

    if place.artifact_id is not None and place.artifact_id != artifact.artifact_id and not artifact.removed:
        revise(place.artifact_id, None, json_text.digest(None), removed=True)
        place.artifact_id = None
    place.revision = max(place.revision, artifact.revision - 1)
    revise(artifact.artifact_id, artifact.data, artifact.digest, removed=artifact.removed)
    if artifact.removed:
        place.artifact_id = None
    elif place.artifact_id is None:
        place.artifact_id, place.created_at = artifact.artifact_id, at
    place.updated_at = at
    place.save(update_fields=["artifact_id", "revision", "created_at", "updated_at"])
    ArtifactRevision.objects.bulk_create(written)
    return place.revision


def put_records(*, project_id: uuid.UUID, records: Sequence[NewRecord]) -> None:
    """Write Records whose ids are free; in the order of their ids, as everybody does."""
    Record.objects.bulk_create(_records(project_id, sorted(records, key=lambda record: record.record_id)))


def _records(project_id: uuid.UUID, records: Iterable[NewRecord]) -> list[Record]:
    return [
        Record(
            id=new_id(),
            project_id=project_id,
            record_id=one.record_id,
            loom_name=one.loom_name,
            stage_name=one.stage_name,
            data=one.data,
            digest=one.digest,
            run_id=one.run_id,
            created_at=one.created_at,
        )
        for one in records
    ]
