"""One Run: how it stands and why, what it waits for, what may be done, and everything it did."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse

from apps.agents.selectors.watching import calls_of_run
from apps.console.differences import patch_between
from apps.console.page import page, render
from apps.console.pages.asked import answer_in_words, asked_form, draft, held_forms
from apps.console.pages.choosing import typed
from apps.console.permissions import Operator, Permission
from apps.console.pictures.graph import draw_graph
from apps.console.pictures.timeline import draw_timeline
from apps.console.principals import names_of
from apps.console.sentences import sentence, where
from apps.core import clock
from apps.core.cursors import number
from apps.core.errors import Issue, LoomError
from apps.ledger.selectors.events import events_before
from apps.ledger.selectors.operations import operations_of_run
from apps.mirrors.selectors.mirrors import mirrors_of_trace
from apps.results.selectors.of_runs import records_of_run, revisions_of_run
from apps.runs.domain.statuses import RunStatus
from apps.runs.selectors.boundaries import latest_boundaries
from apps.runs.selectors.details import (
    RunDetail,
    actions_of_run,
    attempts_before,
    run_detail,
    state_changes,
)
from apps.runs.selectors.lineage import lineage_of
from apps.runs.selectors.pictures import picture_of
from apps.runs.selectors.timing import timeline_of

#: Rows of a tab at a time; older ones are a link away.
ROWS = 100
#: A Run of more attempts is long: its timeline is drawn when the page is loaded.
LONG = 500
ENDED = ("completed", "failed", "cancelled")
#: What has no pages: the newest so many, and the tab says so.
MOST = 200


@dataclass(frozen=True, slots=True)
class Tab:
    """One tab: its name in the address, what it is called, and what its template is given."""

    name: str
    title: str
    content: Callable[[RunDetail, int | None], dict[str, Any]]

    @property
    def template(self) -> str:
        return f"console/tabs/{self.name}.html"


@dataclass(frozen=True, slots=True)
class Refused:
    """What became of a form that was not admitted: why, and what had been filled in."""

    message: str
    given: Mapping[str, str]
    issues: tuple[Issue, ...] = ()
    #: What the paused Run depends on and what changed meanwhile, as ``MIRROR_DIVERGED`` tells it.
    differences: Sequence[Mapping[str, Any]] = ()
    status: int = 409


@page(Permission.SEE)
def run(request: HttpRequest, operator: Operator, run_id: uuid.UUID) -> HttpResponse:
    """The page; ``?tab=`` chooses what is below the pictures, ``?before=`` goes back in it."""
    return show(request, operator, run_detail(project_ids=list(operator.projects), run_id=run_id))


def show(request: HttpRequest, operator: Operator, detail: RunDetail, refused: Refused | None = None) -> HttpResponse:
    """The page of a Run, with what was refused at its top."""
    view = detail.view
    tab = TABS.get(request.GET.get("tab", next(iter(TABS))))
    if tab is None:
        raise Http404
    try:
        before = number(request.GET["before"]) if "before" in request.GET else None
    except ValueError:
        raise Http404 from None
    now = clock.now()
    content, held, last = tab.content(detail, before), held_forms(request, detail), _last_answer(detail)
    context = {
        "title": f"{view.loom_name} {view.run_id}",
        "run": view,
        "detail": detail,
        "sentence": sentence(detail, now=now, may_answer=operator.may(Permission.ANSWER, detail.project_id)),
        "where": where(view),
        "is_open": view.status not in ENDED,
        "may": _may(operator, detail.project_id),
        "refused": refused,
        "asked": asked_form(detail, refused.given if refused else {}, refused.issues if refused else ()),
        "held": held,
        "draft": draft(detail, refused.given) if refused else [],
        **last,
        **_pictures(request, operator, detail),
        "tabs": TABS.values(),
        "tab": tab,
        "before": before,
        **content,
        **names_of(operator, _principals(content, held, last)),
    }
    status = 200 if refused is None else refused.status
    return render(request, "console/run.html", context, live="console/run_live.html", status=status)


def _principals(content: dict[str, Any], held: list[dict[str, Any]], last: dict[str, Any]) -> list[str]:
    """Everybody whom the page names."""
    answered = [*content.get("answers", ()), *(one["action"] for one in held)]
    answered += [last["last_answer"]] if last else []
    said = [action.answered_by["principal"] for action in answered if action.answered_by]
    return [*said, *(entry.principal for entry in content.get("operations", ()))]


def _may(operator: Operator, project_id: uuid.UUID) -> dict[str, bool]:
    return {permission.value: operator.may(permission, project_id) for permission in Permission}


def _pictures(request: HttpRequest, operator: Operator, detail: RunDetail) -> dict[str, Any]:
    """The graph, or why there is none, and the timeline: of a long Run not anew at every look."""
    address = reverse("admin:console_run", args=[detail.view.run_id])
    focus = typed(request.GET, "focus")
    try:
        graph = picture_of(run_id=_id(detail))
        drawn: dict[str, Any] = {
            "graph": draw_graph(graph.graph, graph.marks, focus=focus or None, unfold=f"{address}?focus=")
        }
    except LoomError as unavailable:
        drawn = {"no_graph": unavailable.message}
    is_long = detail.attempts > LONG
    if not (is_long and "X-Live" in request.headers):
        timeline = timeline_of(run_id=_id(detail), project_ids=list(operator.projects), now=_drawn_at(detail))
        # Read after the Run: what is said of it beside the badge is what the badge says.
        drawn["timeline"] = draw_timeline(replace(timeline, status=RunStatus(detail.view.status)))
    return {**drawn, "focus": focus, "is_long": is_long and detail.view.status not in ENDED}


def _drawn_at(detail: RunDetail) -> dt.datetime:
    """Now; where nothing moves by itself, to ten seconds: a page that is looked at stays the same for as long."""
    now = clock.now()
    if detail.view.status in ("queued", "running"):
        return now
    changed = dt.datetime.fromisoformat(detail.view.updated_at)
    return max(changed, now.replace(second=now.second // 10 * 10, microsecond=0))


def _last_answer(detail: RunDetail) -> dict[str, Any]:
    """Who answered last, and what: whoever had the form open as well sees it here."""
    newest = [action for action in actions_of_run(run_id=_id(detail), limit=2) if action.answered_at]
    return {"last_answer": newest[0], "last_answer_text": answer_in_words(newest[0])} if newest else {}


def _newer_than(rows: list[Any], key: Callable[[Any], int]) -> tuple[list[Any], int | None]:
    """A page of rows and the key that the next one starts before."""
    return (rows[:ROWS], key(rows[ROWS - 1])) if len(rows) > ROWS else (rows, None)


def _id(detail: RunDetail) -> uuid.UUID:
    return uuid.UUID(detail.view.run_id)


def _attempts(detail: RunDetail, before: int | None) -> dict[str, Any]:
    rows = attempts_before(run_id=_id(detail), step_seq=before, limit=ROWS + 1)
    shown, older = _newer_than(rows, lambda row: row.step_seq)
    return {"attempts": shown, "older": older}


def _events(detail: RunDetail, before: int | None) -> dict[str, Any]:
    shown, older = _newer_than(
        events_before(run_id=_id(detail), seq=before, limit=ROWS + 1), lambda event: int(event.seq)
    )
    return {"events": shown, "older": older}


def _state(detail: RunDetail, before: int | None) -> dict[str, Any]:
    changes, older = state_changes(run_id=_id(detail), step_seq=before, limit=ROWS)
    shown = [
        {
            "change": change,
            "is_first": change.before is None,
            "patch": patch_between(change.before, change.after),
        }
        for change in changes
    ]
    return {"changes": shown, "older": older}


def _operations(detail: RunDetail, before: int | None) -> dict[str, Any]:
    rows = operations_of_run(project_id=detail.project_id, run_id=_id(detail), limit=MOST + 1)
    return {"operations": rows[:MOST], "is_cut": len(rows) > MOST, "most": MOST}


def _agent_calls(detail: RunDetail, before: int | None) -> dict[str, Any]:
    rows = calls_of_run(run_id=_id(detail), limit=ROWS + 1, receipts=256)
    return {"calls": rows[:ROWS], "is_cut": len(rows) > ROWS, "most": ROWS}


def _artifacts(detail: RunDetail, before: int | None) -> dict[str, Any]:
    rows = revisions_of_run(run_id=_id(detail), limit=MOST + 1)
    return {"revisions": rows[:MOST], "is_cut": len(rows) > MOST, "most": MOST}


def _records(detail: RunDetail, before: int | None) -> dict[str, Any]:
    rows = records_of_run(run_id=_id(detail), limit=MOST + 1)
    return {"records": rows[:MOST], "is_cut": len(rows) > MOST, "most": MOST}


def _boundaries(detail: RunDetail, before: int | None) -> dict[str, Any]:
    """Where the Run can be forked, and the Runs of its trace."""
    tree = lineage_of(_id(detail), project_id=detail.project_id).runs
    found = latest_boundaries(_id(detail), limit=MOST)
    family = [{"run": one, "indent": "–" * one.depth, "is_this": one.run_id == detail.view.run_id} for one in tree]
    return {
        "boundaries": found,
        "family": family[:MOST] if len(tree) > 1 else [],
        "is_cut": len(found) == MOST or len(tree) > MOST,
        "most": MOST,
    }


def _mirrors(detail: RunDetail, before: int | None) -> dict[str, Any]:
    trace_id, project = uuid.UUID(detail.view.trace_id), detail.view.project
    rows = mirrors_of_trace(project_id=detail.project_id, project=project, trace_id=trace_id, limit=MOST + 1)
    return {"mirrors": rows[:MOST], "is_cut": len(rows) > MOST, "most": MOST}


def _audit(detail: RunDetail, before: int | None) -> dict[str, Any]:
    """Who did what: the Operations, and with answers what was asked and said."""
    rows = operations_of_run(project_id=detail.project_id, run_id=_id(detail), limit=MOST + 1)
    actions = [action for action in actions_of_run(run_id=_id(detail), limit=MOST) if action.answered_at]
    return {"operations": rows[:MOST], "answers": actions, "is_cut": len(rows) > MOST, "most": MOST}


TABS = {
    tab.name: tab
    for tab in (
        Tab("attempts", "Attempts", _attempts),
        Tab("events", "Events", _events),
        Tab("state", "State", _state),
        Tab("operations", "Operations", _operations),
        Tab("agents", "Agent calls", _agent_calls),
        Tab("artifacts", "Artifacts", _artifacts),
        Tab("records", "Records", _records),
        Tab("boundaries", "Boundaries", _boundaries),
        Tab("mirrors", "Mirrors", _mirrors),
        Tab("audit", "Audit", _audit),
    )
}
