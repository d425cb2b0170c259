"""Artifacts: what stands in a Project; one of them with all its revisions, any two of them compared."""

from __future__ import annotations

import uuid

from django.http import Http404, HttpRequest, HttpResponse

from apps.console.differences import compare_lines, patch_between, readable
from apps.console.page import page, render
from apps.console.pages.choosing import choices, choices_named, page_in, project_in, typed
from apps.console.permissions import Operator, Permission
from apps.results.contracts import ArtifactPage, ListArtifacts
from apps.results.selectors.comparing import RevisionHead, revision_heads, revisions_data
from apps.results.selectors.results import artifact_by_id, list_artifacts

ROWS = 50
MOST_REVISIONS = 200


@page(Permission.SEE)
def artifacts(request: HttpRequest, operator: Operator) -> HttpResponse:
    """A keyset page of one Project's Artifacts, by id; ``?loom=`` narrows it."""
    project = project_in(request, operator)
    loom_name, artifact_id = typed(request.GET, "loom")[:64], typed(request.GET, "id")

    def read(cursor: str | None) -> ArtifactPage:
        query = ListArtifacts(loom_name=loom_name or None, limit=ROWS, cursor=cursor)
        return list_artifacts(project_id=project, query=query)

    if artifact_id:
        one = artifact_by_id(project_id=project, artifact_id=artifact_id)
        found, wrong = ArtifactPage(data=[one] if one else []), ""
    else:
        found, wrong = page_in(request, read, "these filters")
    context = {
        "title": "Artifacts",
        "found": found,
        "wrong": wrong,
        "projects": choices_named(operator.projects[project], operator.projects.values()),
        "project": operator.projects[project],
        "loom": loom_name,
        "artifact_id": artifact_id,
    }
    return render(request, "console/artifacts.html", context)


@page(Permission.SEE)
def artifact(request: HttpRequest, operator: Operator) -> HttpResponse:
    """``?project=&id=`` names it; ``?from=&to=`` are the revisions compared, else the last two."""
    project, artifact_id = project_in(request, operator), request.GET.get("id", "")
    if not 0 < len(artifact_id) <= 200 or "\x00" in artifact_id:
        raise Http404
    heads = revision_heads(project_id=project, artifact_id=artifact_id, limit=MOST_REVISIONS + 1)
    new = _chosen(heads, request.GET.get("to", "")) or heads[0]
    old = _chosen(heads, request.GET.get("from", "")) or _before(heads, new)
    data = revisions_data(project_id=project, artifact_id=artifact_id, keys={new.key, old.key if old else new.key})
    context = {
        "title": artifact_id,
        "artifact_id": artifact_id,
        "project": operator.projects[project],
        "heads": heads[:MOST_REVISIONS],
        "is_cut": len(heads) > MOST_REVISIONS,
        "most": MOST_REVISIONS,
        "new": new,
        "old": old,
        "data": data.get(new.key),
        "froms": choices(str(old.key) if old else "", _titles(heads)),
        "tos": choices(str(new.key), _titles(heads)),
    }
    if old is not None:
        before, after = data.get(old.key), data.get(new.key)
        empty: list[str] = []
        context["diff"] = compare_lines(
            empty if old.removed else readable(before), empty if new.removed else readable(after)
        )
        context["patch"] = patch_between(before, after) if not (old.removed or new.removed) else None
    return render(request, "console/artifact.html", context)


def _chosen(heads: list[RevisionHead], text: str) -> RevisionHead | None:
    if not text:
        return None
    try:
        key = uuid.UUID(text)
    except ValueError:
        raise Http404 from None
    found = next((head for head in heads if head.key == key), None)
    if found is None:
        raise Http404
    return found


def _before(heads: list[RevisionHead], new: RevisionHead) -> RevisionHead | None:
    """The revision before ``new`` at the same place."""
    older = heads[heads.index(new) + 1 :]
    return next((head for head in older if (head.loom_name, head.stage_name) == (new.loom_name, new.stage_name)), None)


def _titles(heads: list[RevisionHead]) -> dict[str, str]:
    places = {(head.loom_name, head.stage_name) for head in heads}
    titles = {}
    for head in heads:
        where = f" of {head.loom_name}/{head.stage_name}" if len(places) > 1 else ""
        titles[str(head.key)] = f"revision {head.revision}{where}{' (removed)' if head.removed else ''}"
    return titles
