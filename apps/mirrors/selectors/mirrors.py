"""Reads of Mirrors; a caller sees those of the Projects that it may write Mirrors into (M2, M6)."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterator, Mapping
from itertools import groupby

from apps.access.selectors.projects import mirror_projects
from apps.core import clock, cursors
from apps.core.caller import Caller
from apps.core.errors import ErrorCode, LoomError
from apps.mirrors.contracts import ListMirrors, MirrorList, MirrorView
from apps.mirrors.models import Mirror, Placement


def projects_of(caller: Caller) -> dict[uuid.UUID, str]:
    """Id → name of the Projects whose Mirrors this caller sees and may add to."""
    found = mirror_projects(project_id=caller.project_id, credential_id=caller.credential_id)
    return {project.pk: project.name for project in found}


def target_project(projects: Mapping[uuid.UUID, str], name: str) -> uuid.UUID:
    """That one of a caller's Projects which has this name; ``NOT_FOUND``, in one wording, for any other."""
    for project_id, found in projects.items():
        if found == name:
            return project_id
    raise LoomError(ErrorCode.NOT_FOUND, f"There is no Project {name} that you may write Mirrors into.")


def view_of(mirror: Mirror, project: str) -> MirrorView:
    """A Mirror as it is shown."""
    return MirrorView.model_validate(
        {
            "mirror_id": str(mirror.mirror_id),
            "trace_id": str(mirror.trace_id),
            "run_id": str(mirror.run_id),
            "loom_name": mirror.loom_name,
            "release_digest": mirror.release_digest,
            "boundary": mirror.boundary,
            "kind": mirror.kind,
            "size_bytes": mirror.size_bytes,
            "project": project,
            "created_at": clock.to_wire(mirror.created_at),
        }
    )


def find_mirror(*, projects: Mapping[uuid.UUID, str], mirror_id: str) -> Mirror:
    """A Mirror of one of these Projects; ``NOT_FOUND`` for another's as for none (E4, E5)."""
    found = Mirror.objects.filter(mirror_id=uuid.UUID(mirror_id), project_id__in=list(projects)).first()
    if found is None:
        raise LoomError(ErrorCode.NOT_FOUND, f"No Mirror {mirror_id} in the Projects that you may write Mirrors into.")
    return found


def list_mirrors(*, projects: Mapping[uuid.UUID, str], query: ListMirrors) -> MirrorList:
    """One keyset page, newest first."""
    filters: dict[str, str] = {}
    after = cursors.decode("mirror_list", filters, query.cursor, uuid.UUID)
    rows = Mirror.objects.filter(project_id__in=list(projects)).defer("manifest").order_by("-id")
    if after is not None:
        rows = rows.filter(id__lt=after)
    page = list(rows[: query.limit + 1])
    shown = page[: query.limit]
    more = len(page) > len(shown)
    return MirrorList(
        mirrors=[view_of(row, projects[row.project_id]) for row in shown],
        next_cursor=cursors.encode("mirror_list", filters, str(shown[-1].pk)) if more else None,
    )


def mirrors_of_trace(*, project_id: uuid.UUID, project: str, trace_id: uuid.UUID, limit: int) -> list[MirrorView]:
    """The newest Mirrors of a trace that its Project holds, newest first."""
    rows = Mirror.objects.filter(project_id=project_id, trace_id=trace_id).defer("manifest").order_by("-id")
    return [view_of(row, project) for row in rows[:limit]]


def every_digest() -> Iterator[tuple[str, list[str]]]:
    """The digest of every file that some Project's Mirror has, with the ids of those Mirrors."""
    rows = Mirror.objects.order_by("digest", "id").values_list("digest", "mirror_id").iterator(chunk_size=200)
    for digest, same in groupby(rows, key=lambda row: row[0]):
        yield digest, [str(mirror_id) for _, mirror_id in same]


def known_digests(digests: Collection[str], *, besides: Collection[uuid.UUID] = ()) -> set[str]:
    """Those that some Project's Mirror has, ``besides`` those of these primary keys."""
    rows = Mirror.objects.filter(digest__in=list(digests)).order_by().values_list("digest", "pk")
    return {digest for digest, key in rows if key not in besides}


def placed_by(*, project_id: uuid.UUID, mirror_id: uuid.UUID) -> set[tuple[str, str]]:
    """(kind, id) of what this Mirror once put into the Project."""
    rows = Placement.objects.filter(project_id=project_id, mirror_id=mirror_id).order_by()
    return set(rows.values_list("kind", "item_id"))


def traces_of_placed(
    *, project_id: uuid.UUID, places: Collection[tuple[str, str, int]]
) -> dict[tuple[str, str, int], uuid.UUID]:
    """(loomName, stageName, revision) → the trace whose Mirror put that revision there."""
    if not places:
        return {}
    rows = Placement.objects.filter(
        project_id=project_id,
        kind="artifact",
        loom_name__in=list({loom for loom, _, _ in places}),
        stage_name__in=list({stage for _, stage, _ in places}),
        revision__in=list({revision for _, _, revision in places}),
    ).order_by()
    columns = ("loom_name", "stage_name", "revision", "trace_id")
    return {(loom, stage, revision): trace for loom, stage, revision, trace in rows.values_list(*columns)}
