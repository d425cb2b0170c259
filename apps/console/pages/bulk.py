"""Pause or cancel many Runs: first what it would be, then each as an Operation of its own (superusers, K14)."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from django.http import Http404, HttpRequest, HttpResponse

from apps.console.operations import identity_of_each, is_known, submit
from apps.console.page import page, render
from apps.console.pages.runs import asked_in
from apps.console.permissions import Operator, Permission
from apps.core import clock
from apps.core.errors import LoomError
from apps.runs import endpoints
from apps.runs.contracts import RunSummary
from apps.runs.domain.statuses import TERMINAL
from apps.runs.selectors.browsing import matching_runs, runs_by_id

#: As many Runs at a time.
MOST = 500
#: Word in the form → (title, Endpoint, what is said of a Run that it changed).
DEEDS = {
    "pause": ("Pause", endpoints.PAUSE_RUN, "paused, or asked to pause"),
    "cancel": ("Cancel", endpoints.CANCEL_RUN, "cancelled"),
}


@dataclass(frozen=True, slots=True)
class Told:
    """What became of one Run."""

    run: RunSummary
    verdict: str
    status: str


def _deed(word: str) -> str:
    if word not in DEEDS:
        raise Http404
    return word


@page(Permission.BULK)
def ask(request: HttpRequest, operator: Operator) -> HttpResponse:
    """How many Runs it would be, and which; nothing is done yet."""
    deed = _deed(request.GET.get("do", ""))
    if request.GET.get("scope") == "filter":
        asked = asked_in(request.GET, operator, clock.now())
        found, is_more = matching_runs(project_ids=asked.project_ids, criteria=asked.criteria, limit=MOST)
        back = asked.query
    else:
        found = runs_by_id(project_ids=list(operator.projects), run_ids=_ids(request.GET.getlist("run")))
        is_more, back = False, request.GET.get("back", "")
    open_runs = [run for run in found if run.status not in TERMINAL]
    due = [run for run in open_runs if deed != "pause" or not (run.status == "paused" or run.pause_requested)]
    context = {
        "title": f"{DEEDS[deed][0]} {len(due)} Run{'' if len(due) == 1 else 's'}?",
        "deed": deed,
        "verb": DEEDS[deed][0],
        "due": due,
        "ended": len(found) - len(open_runs),
        "resting": len(open_runs) - len(due),
        "is_more": is_more,
        "most": MOST,
        "run_ids": " ".join(run.run_id for run in due),
        "back": back,
    }
    return render(request, "console/bulk_ask.html", context)


@page(Permission.BULK, methods=("POST",), otherwise="admin:console_runs")
def do(request: HttpRequest, operator: Operator) -> HttpResponse:
    """Each Run by itself, under an identity made of the form's: sent twice, the form does nothing twice."""
    deed = _deed(request.POST.get("do", ""))
    found = runs_by_id(project_ids=list(operator.projects), run_ids=_ids(request.POST.get("runs", "").split()))
    by_name = {name: key for key, name in operator.projects.items()}
    told = [_one(operator, by_name[run.project], run, deed, request) for run in found]
    context = {
        "title": f"{DEEDS[deed][0]}: {len(told)} Run{'' if len(told) == 1 else 's'}",
        "told": told,
        "done": sum(one.status == "accepted" for one in told),
        "back": request.POST.get("back", ""),
    }
    return render(request, "console/bulk_told.html", context)


def _one(operator: Operator, project_id: uuid.UUID, run: RunSummary, deed: str, request: HttpRequest) -> Told:
    _, endpoint, done = DEEDS[deed]
    try:
        identity = identity_of_each(request.POST, run.run_id)
        if run.status in TERMINAL and not is_known(operator, project_id, identity):
            return Told(run, "skipped: it had ended", "cancelled")
        result = submit(endpoint, operator, project_id, identity, runId=run.run_id)
    except LoomError as error:
        return Told(run, error.message, "rejected")
    return Told(run, done if result.receipt.effect == "applied" else "nothing to do", "accepted")


def _ids(texts: Sequence[str]) -> list[uuid.UUID]:
    """The ids of a selection, each once; what is none is left out."""
    found: dict[uuid.UUID, None] = {}
    for text in texts[:MOST]:
        try:
            found[uuid.UUID(text)] = None
        except ValueError:
            continue
    return list(found)
