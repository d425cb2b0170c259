"""Landing staged commits inside the transaction that saves a Step's result (R6, S4)."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from apps.core import json_text
from apps.core.database import for_update
from apps.core.ids import new_id
from apps.looms.authoring.staging import AppendRecord, CreateArtifact, RemoveArtifact, Staged, StagedArtifact
from apps.looms.commits import Place, RecordDecision, decide_append, decide_change, decide_create
from apps.results.models import Artifact, ArtifactRevision, Record


@dataclass(frozen=True, slots=True)
class Landing:
    """Where commits go: always the place of the Stage that staged them."""

    project_id: uuid.UUID
    loom_name: str
    stage_name: str
    run_id: uuid.UUID
    now: dt.datetime


@dataclass(frozen=True, slots=True)
class WrittenArtifact:
    """One new revision of the place."""

    artifact_id: str
    revision: int
    removed: bool


@dataclass(frozen=True, slots=True)
class Landed:
    """What was written, in the order of the commits: revisions, and the ids of Records, each once."""

    artifacts: tuple[WrittenArtifact, ...] = ()
    record_ids: tuple[str, ...] = ()

    @property
    def artifact_ids(self) -> tuple[str, ...]:
        """Each id once."""
        return tuple(dict.fromkeys(written.artifact_id for written in self.artifacts))


def land_commits(landing: Landing, commits: Sequence[Staged]) -> Landed:
    """Apply ``commits`` in order; raises ``ArtifactConflict`` or ``RecordConflict``, and the transaction
    must then be rolled back."""
    artifacts = [c for c in commits if not isinstance(c, AppendRecord)]
    records = [c for c in commits if isinstance(c, AppendRecord)]
    return Landed(
        tuple(_land_artifacts(landing, artifacts) if artifacts else []),
        tuple(dict.fromkeys(_land_records(landing, records) if records else [])),
    )


def _locked_place(landing: Landing) -> Artifact:
    where = {"project_id": landing.project_id, "loom_name": landing.loom_name, "stage_name": landing.stage_name}
    rows = for_update(Artifact.objects.filter(**where))
    artifact = rows.first()
    if artifact is None:
        # Two Runs may come first at once: one inserts, both then queue for the same row.
        Artifact.objects.bulk_create([Artifact(**where)], ignore_conflicts=True)
        artifact = rows.get()
    return artifact


def _land_artifacts(landing: Landing, commits: Sequence[StagedArtifact]) -> list[WrittenArtifact]:
    artifact = _locked_place(landing)
    # The worker before may have had a faster clock (F22).
    now = max(landing.now, artifact.updated_at or landing.now)
    written: list[ArtifactRevision] = []
    for commit in commits:
        place = Place(artifact.artifact_id, artifact.revision)
        if isinstance(commit, CreateArtifact):
            others = Artifact.objects.filter(project_id=landing.project_id, artifact_id=commit.artifact_id)
            revision = decide_create(place, commit, id_taken=others.exclude(pk=artifact.pk).exists())
            artifact.created_at = now
        else:
            revision = decide_change(place, commit)
        removed = isinstance(commit, RemoveArtifact)
        data = None if isinstance(commit, RemoveArtifact) else commit.data
        artifact.artifact_id = None if removed else commit.artifact_id
        artifact.revision = revision
        artifact.updated_at = now
        written.append(
            ArtifactRevision(
                id=new_id(),
                artifact=artifact,
                revision=revision,
                artifact_id_then=commit.artifact_id,
                data=data,
                digest=json_text.digest(data),
                removed=removed,
                run_id=landing.run_id,
                created_at=now,
            )
        )
    artifact.save(update_fields=["artifact_id", "revision", "created_at", "updated_at"])
    ArtifactRevision.objects.bulk_create(written)
    return [WrittenArtifact(one.artifact_id_then, one.revision, one.removed) for one in written]


def _land_records(landing: Landing, commits: Sequence[AppendRecord]) -> list[str]:
    ids = [commit.record_id for commit in commits]
    known = dict(
        Record.objects.filter(project_id=landing.project_id, record_id__in=ids).values_list("record_id", "digest")
    )
    new: list[Record] = []
    for commit in commits:
        digest = json_text.digest(commit.data)
        known_digest = known.get(commit.record_id)
        if decide_append(commit, known_digest=known_digest, digest=digest) is RecordDecision.ADD:
            known[commit.record_id] = digest
            new.append(
                Record(
                    id=new_id(),
                    project_id=landing.project_id,
                    record_id=commit.record_id,
                    loom_name=landing.loom_name,
                    stage_name=landing.stage_name,
                    data=commit.data,
                    digest=digest,
                    run_id=landing.run_id,
                    created_at=landing.now,
                )
            )
    # In one order everywhere: two Runs that append the same ids must not wait for each other.
    Record.objects.bulk_create(sorted(new, key=lambda record: record.record_id))
    return ids
