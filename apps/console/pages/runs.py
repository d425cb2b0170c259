"""The list of Runs: filters in the address, one keyset page at a time."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Collection
from dataclasses import dataclass

from django.http import HttpRequest, HttpResponse, QueryDict

from apps.console.page import page, render
from apps.console.permissions import Operator, Permission
from apps.core import clock
from apps.core.caller import Source
from apps.core.errors import LoomError
from apps.core.ids import end_of_id
from apps.ledger.selectors.audit import WINDOW, operations_ending
from apps.looms.selectors.releases import known_names
from apps.runs.domain.statuses import RunErrorCode, RunStatus
from apps.runs.selectors.browsing import OPEN_RUNS, RunCriteria, browse_runs

ROWS = 50
#: How long ago a Run was admitted: the word in the address, what it is called, and (since, before) as ages.
AGES: dict[str, tuple[str, dt.timedelta | None, dt.timedelta | None]] = {
    "1h": ("within an hour", dt.timedelta(hours=1), None),
    "1d": ("within a day", dt.timedelta(days=1), None),
    "7d": ("within 7 days", dt.timedelta(days=7), None),
    "over1h": ("over an hour ago", None, dt.timedelta(hours=1)),
    "over1d": ("over a day ago", None, dt.timedelta(days=1)),
    "over7d": ("over 7 days ago", None, dt.timedelta(days=7)),
}
FILTERS = ("project", "loom", "status", "source", "age", "error", "text", "operation")


@dataclass(frozen=True, slots=True)
class Choice:
    """One entry of a list to choose from."""

    value: str
    title: str
    chosen: bool


@dataclass(frozen=True, slots=True)
class Asked:
    """The filters of an address: as typed, in which Projects, and what they come to; ``wrong`` says what is none."""

    typed: dict[str, str]
    project_ids: Collection[uuid.UUID]
    criteria: RunCriteria
    wrong: str = ""

    @property
    def query(self) -> str:
        """The filters as they stand in an address."""
        query = QueryDict(mutable=True)
        query.update({name: text for name, text in self.typed.items() if text})
        return query.urlencode()


def asked_in(query: QueryDict, operator: Operator, now: dt.datetime) -> Asked:
    """The filters that ``query`` holds; what cannot be understood finds nothing and says so."""
    typed = {name: query.get(name, "").replace("\x00", "").strip()[:200] for name in FILTERS}
    projects = [key for key, name in operator.projects.items() if typed["project"] in ("", name)]
    _, since, before = AGES.get(typed["age"], ("", None, None))
    operation, wrong = None, ""
    try:
        operation = uuid.UUID(typed["operation"]) if typed["operation"] else None
    except ValueError:
        # As it is shown: its end, of which the newest is meant.
        end = end_of_id(typed["operation"])
        named = operations_ending(project_ids=projects, end=end, limit=1) if end else []
        if named:
            operation = named[0].operation_id
        elif end:
            wrong = f"None of the newest {WINDOW:,} Operations ends like this; give an older one whole."
        else:
            wrong = "An operationId is a UUID, or its last 4 to 12 digits; this is none, so no Run has it."
    criteria = RunCriteria(
        loom_name=typed["loom"],
        status=typed["status"],
        source=typed["source"],
        error_code=typed["error"],
        text=typed["text"],
        operation_id=operation,
        since=now - since if since else None,
        before=now - before if before else None,
    )
    return Asked(typed, [] if wrong else projects, criteria, wrong)


@page(Permission.SEE)
def runs(request: HttpRequest, operator: Operator) -> HttpResponse:
    """Newest first; the address holds filters and place, so that going back finds them again."""
    asked = asked_in(request.GET, operator, clock.now())
    wrong = asked.wrong
    try:
        found = browse_runs(
            project_ids=asked.project_ids,
            criteria=asked.criteria,
            limit=ROWS,
            cursor=request.GET.get("cursor") or None,
        )
    except LoomError:
        found = browse_runs(project_ids=asked.project_ids, criteria=asked.criteria, limit=ROWS)
        wrong = "That page does not belong to these filters; this is the first one."
    context = {
        "title": "Runs",
        "found": found,
        "asked": asked,
        "wrong": wrong,
        "is_filtered": bool(asked.query),
        "may_bulk": operator.may(Permission.BULK),
        **({} if "X-Live" in request.headers else _choices(asked, operator)),
    }
    return render(request, "console/runs.html", context, live="console/runs_live.html")


def _choices(asked: Asked, operator: Operator) -> dict[str, list[Choice]]:
    def choices(name: str, values: dict[str, str]) -> list[Choice]:
        return [Choice(value, title, asked.typed[name] == value) for value, title in values.items()]

    return {
        "projects": choices("project", {name: name for name in operator.projects.values()}),
        "looms": choices("loom", {name: name for name in known_names()}),
        "statuses": choices("status", {OPEN_RUNS: "not ended", **{s.value: s.value for s in RunStatus}}),
        "sources": choices("source", {s.value: s.value for s in Source}),
        "ages": choices("age", {value: title for value, (title, _, _) in AGES.items()}),
        "errors": choices("error", {code.value: code.value for code in RunErrorCode}),
    }
