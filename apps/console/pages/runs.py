"""The list of Runs: filters in the address, one keyset page at a time."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Collection
from dataclasses import dataclass

from django.http import HttpRequest, HttpResponse, QueryDict

from apps.console.page import page, render
from apps.console.pages.choosing import Choice, choices, choices_named, narrowed, page_in, typed
from apps.console.permissions import Operator, Permission
from apps.core import clock
from apps.core.caller import Source
from apps.core.ids import end_of_id
from apps.ledger.selectors.audit import WINDOW, operations_ending
from apps.looms.selectors.releases import known_names
from apps.runs.domain.statuses import RunErrorCode, RunStatus
from apps.runs.selectors.browsing import OPEN_RUNS, RunCriteria, RunPage, browse_runs

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
    asked = {name: typed(query, name) for name in FILTERS}
    projects = narrowed(operator.projects, asked["project"])
    _, since, before = AGES.get(asked["age"], ("", None, None))
    operation, wrong = None, ""
    try:
        operation = uuid.UUID(asked["operation"]) if asked["operation"] else None
    except ValueError:
        # As it is shown: its end, of which the newest is meant.
        end = end_of_id(asked["operation"])
        named = operations_ending(project_ids=projects, end=end, limit=1) if end else []
        if named:
            operation = named[0].operation_id
        elif end:
            wrong = f"None of the newest {WINDOW:,} Operations ends like this; give an older one whole."
        else:
            wrong = "An operationId is a UUID, or its last 4 to 12 digits; this is none, so no Run has it."
    criteria = RunCriteria(
        loom_name=asked["loom"],
        status=asked["status"],
        source=asked["source"],
        error_code=asked["error"],
        text=asked["text"],
        operation_id=operation,
        since=now - since if since else None,
        before=now - before if before else None,
    )
    return Asked(asked, [] if wrong else projects, criteria, wrong)


@page(Permission.SEE)
def runs(request: HttpRequest, operator: Operator) -> HttpResponse:
    """Newest first; the address holds filters and place, so that going back finds them again."""
    asked = asked_in(request.GET, operator, clock.now())

    def read(cursor: str | None) -> RunPage:
        return browse_runs(project_ids=asked.project_ids, criteria=asked.criteria, limit=ROWS, cursor=cursor)

    found, wrong = page_in(request, read, "these filters")
    context = {
        "title": "Runs",
        "found": found,
        "asked": asked,
        "wrong": wrong or asked.wrong,
        "is_filtered": bool(asked.query),
        "may_bulk": operator.may(Permission.BULK),
        **({} if "X-Live" in request.headers else _choices(asked, operator)),
    }
    return render(request, "console/runs.html", context, live="console/runs_live.html")


def _choices(asked: Asked, operator: Operator) -> dict[str, list[Choice]]:
    chosen = asked.typed
    return {
        "projects": choices_named(chosen["project"], operator.projects.values()),
        "looms": choices_named(chosen["loom"], known_names()),
        "statuses": choices(chosen["status"], {OPEN_RUNS: "not ended", **{s.value: s.value for s in RunStatus}}),
        "sources": choices_named(chosen["source"], Source),
        "ages": choices(chosen["age"], {value: title for value, (title, _, _) in AGES.items()}),
        "errors": choices_named(chosen["error"], RunErrorCode),
    }
