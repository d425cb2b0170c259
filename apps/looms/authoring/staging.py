"""What a segment stages and reads: it lands together with the outcome, or not at all (R6, S4).

Changes of one Artifact within a segment are drawn together, so a segment makes at most one revision
of it.  Reads see what the segment has staged itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from apps.core import json_text
from apps.looms.authoring.refusals import ArtifactConflict, RecordConflict, ResultInvalid
from apps.looms.authoring.values import Bounds


@dataclass(frozen=True, slots=True)
class ArtifactValue:
    """An Artifact as it stands."""

    artifact_id: str
    loom_name: str
    stage_name: str
    revision: int
    data: Any


@dataclass(frozen=True, slots=True)
class RecordValue:
    """A Record."""

    record_id: str
    loom_name: str
    stage_name: str
    data: Any


class ResultReader(Protocol):
    """Reads of the Project's present results; each answers ``None`` when there is none."""

    def artifact_at(self, loom_name: str, stage_name: str) -> ArtifactValue | None: ...
    def artifact(self, artifact_id: str) -> ArtifactValue | None: ...
    def record(self, record_id: str) -> RecordValue | None: ...
    def latest_record(self, loom_name: str, stage_name: str) -> RecordValue | None: ...


@dataclass(frozen=True, slots=True)
class CreateArtifact:
    """Fill the free place of this Loom and Stage."""

    artifact_id: str
    data: Any


@dataclass(frozen=True, slots=True)
class ReplaceArtifact:
    """A new revision after ``expected_revision``."""

    artifact_id: str
    expected_revision: int
    data: Any


@dataclass(frozen=True, slots=True)
class RemoveArtifact:
    """Free the place of an Artifact that stands at ``expected_revision``."""

    artifact_id: str
    expected_revision: int


@dataclass(frozen=True, slots=True)
class AppendRecord:
    """A new Record of this Loom and Stage."""

    record_id: str
    data: Any


StagedArtifact = CreateArtifact | ReplaceArtifact | RemoveArtifact
Staged = StagedArtifact | AppendRecord


@dataclass(frozen=True, slots=True)
class ArtifactRead:
    """An Artifact was read at this revision, where it stood then."""

    artifact_id: str
    revision: int
    loom_name: str
    stage_name: str


@dataclass(frozen=True, slots=True)
class RecordRead:
    """A Record was read."""

    record_id: str


Read = ArtifactRead | RecordRead


@dataclass(frozen=True, slots=True)
class Artifact:
    """What Code sees of an Artifact; ``data`` is a copy."""

    artifact_id: str
    revision: int
    data: Any


@dataclass(frozen=True, slots=True)
class Record:
    """What Code sees of a Record; ``data`` is a copy."""

    record_id: str
    data: Any


def _copy(data: Any) -> Any:
    return json_text.loads(json_text.dumps(data))


class Staging:
    """The results of one segment, laid over those of the Project."""

    def __init__(
        self, *, loom_name: str, stage_name: str, reader: ResultReader, bounds: Bounds, new_id: Callable[[], str]
    ) -> None:
        self._place = (loom_name, stage_name)
        self._reader = reader
        self._bounds = bounds
        self._new_id = new_id
        #: In the order staged; at most one entry an Artifact.
        self._changes: dict[str, Staged] = {}
        self._records: dict[str, AppendRecord] = {}
        self._reads: dict[Read, None] = {}
        #: This Stage's Artifact as last read: not read yet, none, or its id and revision.
        self._last_read: tuple[bool, ArtifactRead | None] = (False, None)

    # -- reading -----------------------------------------------------------------------------

    def artifact_at(self, loom_name: str, stage_name: str) -> Artifact | None:
        """The Artifact at a place, as this segment would leave it."""
        if (loom_name, stage_name) == self._place:
            for change in self._changes.values():
                if isinstance(change, CreateArtifact):
                    return self._seen(change.artifact_id, None)
        found = self._reader.artifact_at(loom_name, stage_name)
        if found is None:
            if (loom_name, stage_name) == self._place:
                self._last_read = (True, None)
            return None
        return self._seen(found.artifact_id, found)

    def artifact(self, artifact_id: str) -> Artifact | None:
        """The Artifact with this id, as this segment would leave it."""
        if isinstance(self._changes.get(artifact_id), CreateArtifact):
            return self._seen(artifact_id, None)
        return self._seen(artifact_id, self._reader.artifact(artifact_id))

    def _seen(self, artifact_id: str, found: ArtifactValue | None) -> Artifact | None:
        """Note the read of ``found`` and lay this segment's own change over it."""
        if found is not None:
            read = ArtifactRead(found.artifact_id, found.revision, found.loom_name, found.stage_name)
            self._reads[read] = None
            if (found.loom_name, found.stage_name) == self._place:
                self._last_read = (True, read)
        change = self._changes.get(artifact_id)
        if isinstance(change, RemoveArtifact):
            return None
        if isinstance(change, ReplaceArtifact):
            return Artifact(artifact_id, change.expected_revision + 1, _copy(change.data))
        if isinstance(change, CreateArtifact):
            return Artifact(artifact_id, 1, _copy(change.data))
        return None if found is None else Artifact(artifact_id, found.revision, _copy(found.data))

    def record(self, record_id: str) -> Record | None:
        """The Record with this id."""
        staged = self._records.get(record_id)
        if staged is not None:
            return Record(record_id, _copy(staged.data))
        return self._seen_record(self._reader.record(record_id))

    def latest_record(self, loom_name: str, stage_name: str) -> Record | None:
        """The newest Record of a Stage."""
        if (loom_name, stage_name) == self._place and self._records:
            newest = list(self._records.values())[-1]
            return Record(newest.record_id, _copy(newest.data))
        return self._seen_record(self._reader.latest_record(loom_name, stage_name))

    def _seen_record(self, found: RecordValue | None) -> Record | None:
        if found is None:
            return None
        self._reads[RecordRead(found.record_id)] = None
        return Record(found.record_id, _copy(found.data))

    # -- staging -----------------------------------------------------------------------------

    def put(self, data: Any) -> str:
        """Create this Stage's Artifact, or replace it at the revision last read."""
        for change in self._changes.values():
            if isinstance(change, CreateArtifact):
                return self._replace(change.artifact_id, 1, data)
        was_read, last = self._last_read
        if not was_read:
            self.artifact_at(*self._place)
            _, last = self._last_read
        if last is None:
            return self.create(data, artifact_id=None)
        before = self._changes.get(last.artifact_id)
        if isinstance(before, RemoveArtifact):
            return self.create(data, artifact_id=None)
        staged = isinstance(before, ReplaceArtifact)
        return self._replace(last.artifact_id, last.revision + 1 if staged else last.revision, data)

    def create(self, data: Any, *, artifact_id: str | None) -> str:
        """Stage a new Artifact at this Stage's place; its id is returned."""
        chosen = self._new_id() if artifact_id is None else self._bounds.id(artifact_id, "artifact_id")
        if any(isinstance(change, CreateArtifact) for change in self._changes.values()):
            raise ArtifactConflict("This Step has created this Stage's Artifact already.")
        if chosen in self._changes:
            raise ArtifactConflict(f"This Step has changed Artifact {chosen} already.")
        self._changes[chosen] = CreateArtifact(chosen, self._bounds.json(data, "The Artifact"))
        return chosen

    def replace(self, artifact_id: str, *, expected_revision: int, data: Any) -> str:
        """Stage a new revision."""
        chosen = self._bounds.id(artifact_id, "artifact_id")
        return self._replace(chosen, _revision(expected_revision), data)

    def _replace(self, artifact_id: str, expected_revision: int, data: Any) -> str:
        plain = self._bounds.json(data, "The Artifact")
        before = self._at(artifact_id, expected_revision)
        if isinstance(before, CreateArtifact):
            self._changes[artifact_id] = CreateArtifact(artifact_id, plain)
        else:
            base = before.expected_revision if before else expected_revision
            self._changes[artifact_id] = ReplaceArtifact(artifact_id, base, plain)
        return artifact_id

    def remove(self, artifact_id: str, *, expected_revision: int) -> None:
        """Stage a removal."""
        chosen = self._bounds.id(artifact_id, "artifact_id")
        before = self._at(chosen, _revision(expected_revision))
        if isinstance(before, CreateArtifact):
            del self._changes[chosen]
        else:
            base = before.expected_revision if before else expected_revision
            self._changes[chosen] = RemoveArtifact(chosen, base)

    def _at(self, artifact_id: str, expected_revision: int) -> CreateArtifact | ReplaceArtifact | None:
        """This segment's earlier change, which must have left ``expected_revision``."""
        before = self._changes.get(artifact_id)
        if before is None:
            return None
        if isinstance(before, CreateArtifact):
            stands_at = 1
        elif isinstance(before, ReplaceArtifact):
            stands_at = before.expected_revision + 1
        else:
            raise ArtifactConflict(f"This Step has removed Artifact {artifact_id} already.")
        if stands_at != expected_revision:
            raise ArtifactConflict(f"Artifact {artifact_id} is at revision {stands_at}, not {expected_revision}.")
        return before

    def append(self, data: Any, *, record_id: str | None) -> str:
        """Stage a Record; its id is returned.  The same id with the same data changes nothing (S3)."""
        chosen = self._new_id() if record_id is None else self._bounds.id(record_id, "record_id")
        plain = self._bounds.json(data, "The Record")
        before = self._records.get(chosen)
        if before is not None and json_text.canonical(before.data) != json_text.canonical(plain):
            raise RecordConflict(f"This Step has appended Record {chosen} with other data already.")
        self._records.setdefault(chosen, AppendRecord(chosen, plain))
        return chosen

    # -- what came of it -----------------------------------------------------------------------

    def staged(self) -> tuple[Staged, ...]:
        """Artifacts in the order first staged, removals before creations, then the Records."""
        changes = sorted(self._changes.values(), key=lambda change: isinstance(change, CreateArtifact))
        return (*changes, *self._records.values())

    def reads(self) -> tuple[Read, ...]:
        """Every read, each once."""
        return tuple(self._reads)


def _revision(value: Any) -> int:
    if type(value) is not int or value < 1:
        raise ResultInvalid("expected_revision must be a whole number from 1.")
    return value
