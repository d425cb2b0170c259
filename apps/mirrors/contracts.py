"""Mirrors on the wire (M2–M6)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from apps.core.contracts import Contract, Cursor, PageLimit, UuidText
from apps.runs.contracts import RunView

ProjectName = Annotated[
    str,
    Field(
        min_length=1,
        max_length=63,
        description="A Project's name: your own, or one that your credential may write Mirrors into.",
    ),
]
Scope = Literal["artifacts", "records", "run", "all"]


class MirrorView(Contract):
    """A Mirror in a Project; ``sizeBytes`` is that of its file."""

    mirror_id: str
    trace_id: str
    run_id: str
    loom_name: str
    release_digest: str
    boundary: int
    kind: Literal["exported", "imported"]
    size_bytes: int
    project: str
    created_at: str


class ListMirrors(Contract):
    """A page of Mirrors."""

    limit: PageLimit = 50
    cursor: Cursor | None = None


class MirrorList(Contract):
    """One page, newest first."""

    mirrors: list[MirrorView]
    next_cursor: str | None = None


class InspectMirror(Contract):
    """Which Mirror."""

    mirror_id: UuidText


class Problem(Contract):
    """What is damaged; ``entry`` is the file in the Mirror at which it shows, if it is one."""

    entry: str
    problem: str


class Verification(Contract):
    """Every digest was computed anew and everything read; the first thing that is wrong is named."""

    status: Literal["verified", "damaged"]
    problems: list[Problem]


class MirrorInspection(Contract):
    """A Mirror, its manifest, and whether it still is what the manifest says."""

    mirror: MirrorView
    manifest: dict[str, Any]
    verification: Verification


class ExportMirror(Contract):
    """Which trace, and the Project that is to hold its Mirror."""

    trace_id: UuidText
    target_project: ProjectName


class MirrorExported(Contract):
    """The Mirror; the same content again is the same one."""

    mirror: MirrorView


class RestoreMirror(InspectMirror):
    """What of a Mirror is to be restored, and where."""

    target_project: ProjectName
    scope: Annotated[
        Scope, Field(description="`artifacts`, `records`, `run` (paused at the boundary), or `all` of them.")
    ]
    dry_run: Annotated[bool, Field(description="Say what would be done, and do nothing.")] = False


class PlanEntry(Contract):
    """What becomes of one thing of the Mirror; ``id`` is its id in the Mirror."""

    kind: Literal["artifact", "record", "release", "run"]
    id: str
    action: Literal["create", "replace", "unchanged", "conflict"]
    reason: str | None = None


class MirrorRestored(Contract):
    """The plan, whether it has been carried out, and the Run that was restored."""

    plan: list[PlanEntry]
    applied: bool
    run: RunView | None = None
