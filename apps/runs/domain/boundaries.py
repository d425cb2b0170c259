"""What stands at a boundary of a Run, as values (M1, M5, M8, M9)."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from apps.runs.domain.facts import Position


@dataclass(frozen=True, slots=True)
class CompletedStep:
    """The boundary that completing a Step makes.

    ``result`` is what the next Step reads, ``event_seq`` the number of the event that tells of it.
    """

    number: int
    result: Any
    event_seq: int


@dataclass(frozen=True, slots=True)
class Dependency:
    """One Artifact that a Run read or wrote: where it stood, its revision there, and the digest of its data.

    ``removed``: nothing of this id stood any more.
    """

    artifact_id: str
    loom_name: str
    stage_name: str
    revision: int
    digest: str
    removed: bool = False

    def to_json(self) -> dict[str, Any]:
        """As it is stored."""
        return asdict(self)

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Dependency:
        """What :meth:`to_json` made."""
        return cls(**body)


@dataclass(frozen=True, slots=True)
class HeldState:
    """A Stage's State; ``id`` names the row that holds it, ``digest`` is taken over canonical JSON."""

    id: uuid.UUID
    stage: str
    data: Any
    digest: str


@dataclass(frozen=True, slots=True)
class HeldBoundary:
    """Everything that a Run has at boundary ``boundary``: enough to begin another Run there.

    ``position`` is the Step that completed, with ``outcome`` (the saved result, not routed) and ``result``
    (what the next Step reads).  At boundary 0 no Step has completed: ``outcome`` is None, and ``position``
    is the entry Step, whose Stage's initializer is due.  ``visits`` counts visits by ``stage/step``.
    ``state`` is the Stage's State there, None before the first initializer.  ``event_seq`` is the number of
    the last event that belongs to the boundary; attempts with a ``stepSeq`` below ``step_seq`` belong to it.
    ``dependencies`` are the Artifacts as the Run last saw them; ``artifact_ids`` and ``record_ids`` what it
    wrote.  ``reached_at`` is when it came there.
    """

    run_id: uuid.UUID
    trace_id: uuid.UUID
    project_id: uuid.UUID
    loom_name: str
    release_digest: str
    exclusive: bool
    input: Any
    boundary: int
    position: Position
    outcome: str | None
    result: Any
    visits: Mapping[str, int]
    state: HeldState | None
    dependencies: tuple[Dependency, ...]
    artifact_ids: tuple[str, ...]
    record_ids: tuple[str, ...]
    event_seq: int
    step_seq: int
    reached_at: dt.datetime


@dataclass(frozen=True, slots=True)
class Seen:
    """How a Run last saw an Artifact; ``digest`` is known of what it began with, else the ledger has it."""

    loom_name: str
    stage_name: str
    revision: int
    removed: bool = False
    digest: str | None = None

    @property
    def place(self) -> tuple[str, str]:
        return self.loom_name, self.stage_name


def seen_artifacts(
    begun_with: Iterable[Dependency], touched: Iterable[tuple[list[dict[str, Any]], list[dict[str, Any]]]]
) -> dict[str, Seen]:
    """Each Artifact as it was last read or written; ``touched`` are the reads and writes of attempts, in order."""
    seen: dict[str, Seen] = {}
    at_place: dict[tuple[str, str], str] = {}

    def see(artifact_id: str, now: Seen) -> None:
        if not now.removed:
            before = at_place.get(now.place, artifact_id)
            was = seen.get(before)
            if before != artifact_id and was is not None and was.place == now.place and not was.removed:
                # A place holds one Artifact: to depend on the second is to have the first gone.
                del seen[before]
            at_place[now.place] = artifact_id
        seen[artifact_id] = now

    for one in begun_with:
        see(one.artifact_id, Seen(one.loom_name, one.stage_name, one.revision, one.removed, one.digest))
    for reads, writes in touched:
        for entry in (*reads, *writes):
            if "artifactId" in entry:
                where = (entry["loomName"], entry["stageName"])
                see(entry["artifactId"], Seen(*where, entry["revision"], entry.get("removed", False)))
    return seen


def written_ids(
    artifact_ids: Iterable[str], record_ids: Iterable[str], writes: Iterable[list[dict[str, Any]]]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The ids of the Artifacts and Records written, each once, in the order in which they came."""
    artifacts, records = dict.fromkeys(artifact_ids), dict.fromkeys(record_ids)
    for entries in writes:
        for entry in entries:
            if "artifactId" in entry:
                artifacts[entry["artifactId"]] = None
            else:
                records[entry["recordId"]] = None
    return tuple(artifacts), tuple(records)
