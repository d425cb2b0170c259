"""Looms: which there are; one of them with its graph, Releases, how its Runs went; two Releases compared."""

from __future__ import annotations

from typing import Any

from django.http import Http404, HttpRequest, HttpResponse

from apps.console.differences import compare_files
from apps.console.page import page, render
from apps.console.pages.choosing import choices, choices_named, project_in, typed
from apps.console.permissions import Operator, Permission
from apps.console.pictures import axis
from apps.console.pictures.graph import draw_graph
from apps.console.sentences import clock_text
from apps.looms.selectors.history import ReleaseHead, newest_releases, release_files, releases_of
from apps.looms.services.catalog import problems
from apps.looms.services.declared import declared_graph
from apps.runs.domain.figures import StepTimes
from apps.runs.selectors.figures import MOST_MEASURED, figures_of_loom

MOST_RELEASES = 50
#: Releases that are read to find the newest of each Loom.
MOST_READ = 2000


@page(Permission.SEE)
def looms(request: HttpRequest, operator: Operator) -> HttpResponse:
    """Every Loom that ever loaded, and those whose folders do not load now."""
    broken = {entry.name: entry for entry in problems()}
    newest = newest_releases(limit=MOST_READ)
    loaded = {release.loom_name for release in newest}
    failing = [(entry, name in loaded) for name, entry in broken.items()]
    rows = [(release, broken.get(release.loom_name)) for release in newest]
    return render(request, "console/looms.html", {"title": "Looms", "rows": rows, "failing": failing})


@page(Permission.SEE)
def loom(request: HttpRequest, operator: Operator, loom_name: str) -> HttpResponse:
    """The graph of a Release (``?release=``, else the newest), and the figures of one Project (``?project=``)."""
    releases = releases_of(loom_name=loom_name, limit=MOST_RELEASES)
    if not releases:
        raise Http404
    shown = _chosen(releases, typed(request.GET, "release")) or releases[0]
    graph = declared_graph(release_files(loom_name=loom_name, digest=shown.digest))
    project = project_in(request, operator)
    figures = figures_of_loom(project_id=project, loom_name=loom_name)
    context: dict[str, Any] = {
        "title": loom_name,
        "graph": graph,
        "picture": graph
        and draw_graph(graph, focus=typed(request.GET, "stage") or None, unfold=f"?release={shown.digest}&stage="),
        "releases": releases,
        "shown": shown,
        "most_releases": MOST_RELEASES,
        "problem": next((entry for entry in problems() if entry.name == loom_name), None),
        "projects": choices_named(operator.projects[project], operator.projects.values()),
        "project": operator.projects[project],
        "figures": figures,
        "may_bulk": operator.may(Permission.BULK),
        "most_measured": MOST_MEASURED,
        "steps": [(step, _durations(step)) for step in figures.steps],
        "older": choices(releases[1].digest if len(releases) > 1 else "", _titles(releases)),
        "newer": choices(releases[0].digest, _titles(releases)),
    }
    return render(request, "console/loom.html", context)


@page(Permission.SEE)
def releases_compared(request: HttpRequest, operator: Operator, loom_name: str) -> HttpResponse:
    """What differs between the files of two Releases: ``?from=`` and ``?to=`` are their digests."""
    old, new = typed(request.GET, "from"), typed(request.GET, "to")
    files = compare_files(
        release_files(loom_name=loom_name, digest=old), release_files(loom_name=loom_name, digest=new)
    )
    context = {
        "title": f"{loom_name}: two Releases",
        "loom_name": loom_name,
        "old": old,
        "new": new,
        "files": files,
        "added": sum(file.diff.added for file in files),
        "removed": sum(file.diff.removed for file in files),
    }
    return render(request, "console/releases.html", context)


def _chosen(releases: list[ReleaseHead], digest: str) -> ReleaseHead | None:
    if not digest:
        return None
    found = next((release for release in releases if release.digest == digest), None)
    if found is None:
        raise Http404
    return found


def _titles(releases: list[ReleaseHead]) -> dict[str, str]:
    return {each.digest: f"{each.digest[:12]}, loaded {clock_text(each.loaded_at)}" for each in releases}


def _durations(step: StepTimes) -> list[str]:
    seconds = (step.queued_p50, step.queued_p95, step.ran_p50, step.ran_p95, step.longest)
    return [axis.seconds(each) for each in seconds]
