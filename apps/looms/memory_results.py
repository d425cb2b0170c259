"""Artifacts and Records of a test, in memory, by the rules of the ledger (S3, S4)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from apps.core import json_text
from apps.looms.authoring.refusals import ArtifactConflict, RecordConflict
from apps.looms.authoring.staging import (
    AppendRecord,
    ArtifactValue,
    CreateArtifact,
    RecordValue,
    RemoveArtifact,
    Staged,
)
from apps.looms.commits import Place, RecordDecision, decide_append, decide_change, decide_create


class MemoryResults:
    """One Project's results; a :class:`~apps.looms.authoring.staging.ResultReader`."""

    def __init__(self) -> None:
        self.artifacts: dict[str, ArtifactValue] = {}
        self.records: dict[str, RecordValue] = {}
        #: The last revision that stood at a place; it goes on after a removal.
        self._revisions: dict[tuple[str, str], int] = {}

    def give_artifact(self, artifact_id: str, loom_name: str, stage_name: str, data: Any) -> None:
        """An Artifact that is there before the Run, at its first revision."""
        self._put(artifact_id, loom_name, stage_name, data)

    def give_record(self, record_id: str, loom_name: str, stage_name: str, data: Any) -> None:
        """A Record that is there before the Run."""
        self.records[record_id] = RecordValue(record_id, loom_name, stage_name, data)

    def artifact_at(self, loom_name: str, stage_name: str) -> ArtifactValue | None:
        found = (one for one in self.artifacts.values() if (one.loom_name, one.stage_name) == (loom_name, stage_name))
        return next(found, None)

    def artifact(self, artifact_id: str) -> ArtifactValue | None:
        return self.artifacts.get(artifact_id)

    def record(self, record_id: str) -> RecordValue | None:
        return self.records.get(record_id)

    def latest_record(self, loom_name: str, stage_name: str) -> RecordValue | None:
        found = [one for one in self.records.values() if (one.loom_name, one.stage_name) == (loom_name, stage_name)]
        return found[-1] if found else None

    def land(self, staged: Iterable[Staged], *, loom_name: str, stage_name: str) -> None:
        """Apply everything or, when something conflicts, nothing."""
        before = dict(self.artifacts), dict(self.records), dict(self._revisions)
        try:
            for change in staged:
                self._apply(change, loom_name, stage_name)
        except (ArtifactConflict, RecordConflict):
            self.artifacts, self.records, self._revisions = before
            raise

    def _apply(self, change: Staged, loom_name: str, stage_name: str) -> None:
        if isinstance(change, AppendRecord):
            self._append(change, loom_name, stage_name)
        else:
            standing = self.artifact_at(loom_name, stage_name)
            revision = self._revisions.get((loom_name, stage_name), 0)
            place = Place(standing.artifact_id if standing else None, revision)
            if isinstance(change, CreateArtifact):
                decide_create(place, change, id_taken=change.artifact_id in self.artifacts)
            else:
                decide_change(place, change)
                del self.artifacts[change.artifact_id]
            if not isinstance(change, RemoveArtifact):
                self._put(change.artifact_id, loom_name, stage_name, change.data)

    def _put(self, artifact_id: str, loom_name: str, stage_name: str, data: Any) -> None:
        revision = self._revisions.get((loom_name, stage_name), 0) + 1
        self._revisions[loom_name, stage_name] = revision
        self.artifacts[artifact_id] = ArtifactValue(artifact_id, loom_name, stage_name, revision, data)

    def _append(self, change: AppendRecord, loom_name: str, stage_name: str) -> None:
        present = self.records.get(change.record_id)
        known = json_text.digest(present.data) if present else None
        if decide_append(change, known_digest=known, digest=json_text.digest(change.data)) is RecordDecision.ADD:
            self.give_record(change.record_id, loom_name, stage_name, change.data)
