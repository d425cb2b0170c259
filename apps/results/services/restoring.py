"""Bringing Artifacts back to what they held, as new revisions (M8)."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import F, Q
from django.db.models.functions import Length

from apps.core import json_text
from apps.core.database import for_update
from apps.core.ids import new_id
from apps.results.models import Artifact, ArtifactRevision

Place = tuple[str, str]


@dataclass(frozen=True, slots=True)
class HeldPlace:
    """A place, locked until the transaction ends; ``artifact_id`` is None when nothing stands there.

    ``size`` is the number of characters of the data's JSON.  ``revision_key`` names the stored revision.
    """

    loom_name: str
    stage_name: str
    artifact_id: str | None
    revision: int
    digest: str
    run_id: uuid.UUID
    size: int
    revision_key: uuid.UUID


@dataclass(frozen=True, slots=True)
class Restore:
    """What a place is to hold again: ``data`` under ``artifact_id``, or with ``remove`` nothing."""

    loom_name: str
    stage_name: str
    artifact_id: str
    data: Any = None
    remove: bool = False


@dataclass(frozen=True, slots=True)
class Restored:
    """The revision that brought an Artifact back."""

    artifact_id: str
    revision: int


def hold_places(
    *, project_id: uuid.UUID, artifact_ids: Collection[str], places: Collection[Place], new: Collection[Place] = ()
) -> list[HeldPlace]:
    """Lock these places and those where these Artifacts stand, in one order; what they hold.

    Places that never held anything are not among them; those of ``new`` are made and locked as well, for
    :func:`restore_artifacts`.
    """
    if not artifact_ids and not places:
        return []
    # Before any other is locked, and in one order: as whoever restores a Mirror does.
    made = [Artifact(project_id=project_id, loom_name=loom, stage_name=stage) for loom, stage in sorted(new)]
    Artifact.objects.bulk_create(made, ignore_conflicts=True)
    looms, stages = {loom for loom, _ in places}, {stage for _, stage in places}
    near = Q(artifact_id__in=list(artifact_ids)) | Q(loom_name__in=list(looms), stage_name__in=list(stages))
    rows = Artifact.objects.filter(near, project_id=project_id).order_by()
    keys = [
        key
        for key, loom, stage, artifact_id in rows.values_list("id", "loom_name", "stage_name", "artifact_id")
        if (loom, stage) in places or artifact_id in artifact_ids
    ]
    # In one order everywhere, and before their revisions are read.
    locked = list(for_update(Artifact.objects.filter(pk__in=keys).order_by("pk")).values_list("pk", flat=True))
    revisions = (
        ArtifactRevision.objects.filter(artifact_id__in=locked, revision=F("artifact__revision"))
        .select_related("artifact")
        .defer("data")
        .annotate(size=Length("data"))
        .order_by("artifact_id")
    )
    return [
        HeldPlace(
            loom_name=row.artifact.loom_name,
            stage_name=row.artifact.stage_name,
            artifact_id=row.artifact.artifact_id,
            revision=row.revision,
            digest=row.digest,
            run_id=row.run_id,
            size=row.size,
            revision_key=row.pk,
        )
        for row in revisions
    ]


def restore_artifacts(
    *, project_id: uuid.UUID, run_id: uuid.UUID, restores: Sequence[Restore], now: dt.datetime
) -> list[Restored]:
    """Write each as a new revision of its place, in the name of ``run_id``; the places are there and held.

    What else stands there is removed first, as a revision of its own.  The caller has made sure that no
    other place holds one of the ids.
    """
    if not restores:
        return []
    # What is to stand at a place clears it of what is to be removed there.
    in_order = sorted(restores, key=lambda one: not one.remove)
    wanted = {(one.loom_name, one.stage_name): one for one in in_order}
    rows = Artifact.objects.filter(
        project_id=project_id,
        loom_name__in=list({loom for loom, _ in wanted}),
        stage_name__in=list({stage for _, stage in wanted}),
    ).order_by("pk")
    places = [row for row in for_update(rows) if (row.loom_name, row.stage_name) in wanted]
    written: list[ArtifactRevision] = []
    restored = []
    for place in places:
        one = wanted[place.loom_name, place.stage_name]
        at = max(now, place.updated_at or now)
        if place.artifact_id is not None and (one.remove or place.artifact_id != one.artifact_id):
            written.append(_revision(place, place.artifact_id, None, removed=True, run_id=run_id, now=at))
            place.artifact_id = None
        if not one.remove:
            written.append(_revision(place, one.artifact_id, one.data, removed=False, run_id=run_id, now=at))
            if place.artifact_id is None:
                place.artifact_id, place.created_at = one.artifact_id, at
        place.updated_at = at
        restored.append(Restored(one.artifact_id, place.revision))
    Artifact.objects.bulk_update(places, ["artifact_id", "revision", "created_at", "updated_at"])
    ArtifactRevision.objects.bulk_create(written)
    return restored


def _revision(
    place: Artifact, artifact_id: str, data: Any, *, removed: bool, run_id: uuid.UUID, now: dt.datetime
) -> ArtifactRevision:
    place.revision += 1
    return ArtifactRevision(
        id=new_id(),
        artifact=place,
        revision=place.revision,
        artifact_id_then=artifact_id,
        data=data,
        digest=json_text.digest(data),
        removed=removed,
        run_id=run_id,
        created_at=now,
    )
