"""When what Code staged may land (S3, S4): decisions over plain values, for the ledger and the tester alike."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from apps.looms.authoring.refusals import ArtifactConflict, RecordConflict
from apps.looms.authoring.staging import AppendRecord, CreateArtifact, RemoveArtifact, ReplaceArtifact


@dataclass(frozen=True, slots=True)
class Place:
    """What stands at a place: ``artifact_id`` is None when nothing does."""

    artifact_id: str | None
    revision: int


class RecordDecision(enum.Enum):
    """What appending comes to."""

    ADD = "add"
    UNCHANGED = "unchanged"


def decide_create(place: Place, commit: CreateArtifact, *, id_taken: bool) -> int:
    """The revision that creating makes."""
    if place.artifact_id is not None:
        raise ArtifactConflict(f"there is an Artifact here already, {place.artifact_id} revision {place.revision}")
    if id_taken:
        raise ArtifactConflict(f"the id {commit.artifact_id} is taken by another place in this Project")
    return place.revision + 1


def decide_change(place: Place, commit: ReplaceArtifact | RemoveArtifact) -> int:
    """The revision that replacing or removing makes."""
    if place.artifact_id != commit.artifact_id:
        raise ArtifactConflict(f"there is no Artifact {commit.artifact_id} here")
    if place.revision != commit.expected_revision:
        raise ArtifactConflict(
            f"Artifact {commit.artifact_id} is at revision {place.revision}, not {commit.expected_revision}"
        )
    return place.revision + 1


def decide_append(commit: AppendRecord, *, known_digest: str | None, digest: str) -> RecordDecision:
    """Appending a known id with identical data changes nothing, with other data it fails."""
    if known_digest is None:
        return RecordDecision.ADD
    if known_digest != digest:
        raise RecordConflict(f"there is a Record {commit.record_id} with other data")
    return RecordDecision.UNCHANGED
