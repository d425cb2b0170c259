"""Whether what a paused Run depends on still stands, and what can be brought back (M8): decisions over values."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Literal

from apps.runs.domain.boundaries import Dependency

Scope = Literal["artifacts", "state", "all"]


class Change(enum.StrEnum):
    """What became of an Artifact while the Run rested."""

    #: It holds other data.
    CHANGED = "changed"
    #: It was removed, and nothing stands at its place.
    REMOVED = "removed"
    #: It was removed, and an Artifact of another id stands at its place.
    REPLACED = "replaced"
    #: It stands at another place.
    MOVED = "moved"
    #: The Run had it removed, or found it removed, and it stands again.
    APPEARED = "appeared"


@dataclass(frozen=True, slots=True)
class Standing:
    """What stands at a place now: ``artifact_id`` is None when nothing does."""

    artifact_id: str | None
    loom_name: str
    stage_name: str
    revision: int
    digest: str | None

    @property
    def place(self) -> tuple[str, str]:
        return self.loom_name, self.stage_name


def compare(kept: Dependency, *, standing: Standing | None, at_place: Standing | None) -> Change | None:
    """How an Artifact differs from ``kept``; None when it does not.

    ``standing`` is where its id stands now, if it does; ``at_place`` what its place holds.  Revisions do not
    count: an Artifact that was replaced and put back is what it was.
    """
    if kept.removed:
        return None if standing is None else Change.APPEARED
    if standing is None:
        taken = at_place is not None and at_place.artifact_id is not None
        return Change.REPLACED if taken else Change.REMOVED
    if standing.place != (kept.loom_name, kept.stage_name):
        return Change.MOVED
    return None if standing.digest == kept.digest else Change.CHANGED


def why_not_restorable(kept: Dependency, change: Change, *, standing: Standing | None, is_kept: bool) -> str | None:
    """Why bringing ``kept`` back is refused, in words; None when it can be.

    ``is_kept``: the ledger has the data.  A place that was not the Artifact's is left alone.
    """
    elsewhere = standing is not None and standing.place != (kept.loom_name, kept.stage_name)
    if elsewhere:
        assert standing is not None
        return (
            f"it stands at {standing.loom_name}/{standing.stage_name} now, and an id stands at one place only; "
            "remove it there first"
        )
    if change is not Change.APPEARED and not is_kept:
        return "this Project never had the revision that the Run saw, and its Mirror brought none"
    return None


def covers(scope: Scope | None, part: Literal["artifacts", "state"]) -> bool:
    """Whether ``scope`` asks for ``part`` to be brought back."""
    return scope in (part, "all")
