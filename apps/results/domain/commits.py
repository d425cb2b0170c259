"""What Code stages and when it may land (S3, S4): decisions over plain values."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any

from apps.looms.authoring.refusals import ArtifactConflict, RecordConflict


@dataclass(frozen=True, slots=True)
class Create:
    """Put a first Artifact at an empty place."""

    artifact_id: str
    data: Any


@dataclass(frozen=True, slots=True)
class Replace:
    """Put new data where ``expected_revision`` stands."""

    artifact_id: str
    expected_revision: int
    data: Any


@dataclass(frozen=True, slots=True)
class Remove:
    """Empty the place where ``expected_revision`` stands."""

    artifact_id: str
    expected_revision: int


@dataclass(frozen=True, slots=True)
class Append:
    """Add a Record."""

    record_id: str
    data: Any


Commit = Create | Replace | Remove | Append


@dataclass(frozen=True, slots=True)
class Place:
    """What stands at a place: ``artifact_id`` is None when nothing does."""

    artifact_id: str | None
    revision: int


class RecordDecision(enum.Enum):
    """What appending comes to."""

    ADD = "add"
    UNCHANGED = "unchanged"


def decide_create(place: Place, commit: Create, *, id_taken: bool) -> int:
    """The revision that creating makes."""
    if place.artifact_id is not None:
        raise ArtifactConflict(f"there is an Artifact here already, {place.artifact_id} revision {place.revision}")
    if id_taken:
        raise ArtifactConflict(f"the id {commit.artifact_id} is taken by another place in this Project")
    return place.revision + 1


def decide_change(place: Place, commit: Replace | Remove) -> int:
    """The revision that replacing or removing makes."""
    if place.artifact_id != commit.artifact_id:
        raise ArtifactConflict(f"there is no Artifact {commit.artifact_id} here")
    if place.revision != commit.expected_revision:
        raise ArtifactConflict(
            f"Artifact {commit.artifact_id} is at revision {place.revision}, not {commit.expected_revision}"
        )
    return place.revision + 1


def decide_append(record_id: str, *, known_digest: str | None, digest: str) -> RecordDecision:
    """Appending a known id with identical data changes nothing, with other data it fails."""
    if known_digest is None:
        return RecordDecision.ADD
    if known_digest != digest:
        raise RecordConflict(f"there is a Record {record_id} with other data")
    return RecordDecision.UNCHANGED
