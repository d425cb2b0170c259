"""Runs of several Projects for an operator: found by many criteria, at a cost that does not grow with the table.

Project, Loom, status and age are answered by an index.  For everything else, windows of the newest
:data:`WINDOW` Runs that the index leaves are looked through; a page says how many that were.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Collection
from dataclasses import dataclass, replace

from django.db.models import Q, QuerySet, TextField
from django.db.models.functions import Cast

from apps.core import cursors
from apps.core.ids import end_of_id, first_id_at
from apps.ledger.selectors.instances import current_instance
from apps.ledger.selectors.operations import runs_of_operation
from apps.runs import contracts
from apps.runs.domain.statuses import OPEN
from apps.runs.models import Run
from apps.runs.selectors.runs import listed_runs, summary_of

WINDOW = 2000
#: Wherever a status may be named: all that have not ended.
OPEN_RUNS = "open"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCriteria:
    """What is looked for; what is empty or ``None`` is not asked.

    ``error_code`` is a ``lastError.code``.  ``text`` stands in the Loom's name, the Step, the outcome, the last
    error or the input; as a UUID it is the id of the Run or of its trace, and as 4 to 12 hexadecimal digits it is also
    the end of a Run's id, which is how pages show it.  ``since`` and ``before`` are of the
    admission.
    """

    loom_name: str = ""
    status: str = ""
    source: str = ""
    error_code: str = ""
    text: str = ""
    operation_id: uuid.UUID | None = None
    since: dt.datetime | None = None
    before: dt.datetime | None = None


@dataclass(frozen=True, slots=True)
class RunPage:
    """One page, newest first; ``looked_through`` is how many Runs it was picked from, where no index could."""

    runs: list[contracts.RunSummary]
    next_cursor: str | None
    looked_through: int | None


def browse_runs(
    *, project_ids: Collection[uuid.UUID], criteria: RunCriteria, limit: int = 50, cursor: str | None = None
) -> RunPage:
    """A keyset page over the Projects, of at most two statements each; a page may be short and yet go on."""
    # Ages move on between two pages; the keys do not.
    asked = replace(criteria, since=None, before=None)
    listing = {"projects": sorted(map(str, project_ids)), "criteria": str(asked)}
    after = cursors.decode("browse_runs", listing, cursor, uuid.UUID)
    found: list[Run] = []
    floors: list[uuid.UUID] = []
    looked: int | None = None
    for project_id in sorted(project_ids):
        rows = _by_index(project_id, criteria, after)
        if _needs_window(criteria):
            window = list(rows.values_list("id", flat=True)[:WINDOW])
            looked = (looked or 0) + len(window)
            if len(window) == WINDOW:
                floors.append(window[-1])
            if not window:
                continue
            rows = _by_looking(rows.filter(id__gte=window[-1]), criteria)
        found += rows[: limit + 1]
    floor = max(floors, default=None)
    found = sorted((run for run in found if floor is None or run.pk >= floor), key=lambda run: run.pk, reverse=True)
    shown = found[:limit]
    last = shown[-1].pk if len(found) > limit else floor
    current = current_instance().id
    return RunPage(
        runs=[summary_of(run, current=current) for run in shown],
        next_cursor=cursors.encode("browse_runs", listing, str(last)) if last else None,
        looked_through=looked,
    )


def matching_runs(
    *, project_ids: Collection[uuid.UUID], criteria: RunCriteria, limit: int
) -> tuple[list[contracts.RunSummary], bool]:
    """Up to ``limit`` Runs as :func:`browse_runs` pages through them, and whether there may be more."""
    found: list[contracts.RunSummary] = []
    cursor: str | None = None
    for _ in range(10):
        page = browse_runs(project_ids=project_ids, criteria=criteria, limit=limit - len(found), cursor=cursor)
        found += page.runs
        cursor = page.next_cursor
        if cursor is None or len(found) >= limit:
            break
    return found, cursor is not None


def _by_index(project_id: uuid.UUID, criteria: RunCriteria, after: uuid.UUID | None) -> QuerySet[Run]:
    rows = listed_runs().filter(project_id=project_id).order_by("-id")
    if criteria.loom_name:
        rows = rows.filter(loom_name=criteria.loom_name)
    if criteria.status == OPEN_RUNS:
        rows = rows.filter(status__in=[status.value for status in OPEN])
    elif criteria.status:
        rows = rows.filter(status=criteria.status)
    if criteria.since is not None:
        rows = rows.filter(id__gte=first_id_at(criteria.since))
    if criteria.before is not None:
        rows = rows.filter(id__lt=first_id_at(criteria.before))
    if criteria.operation_id is not None:
        touched = runs_of_operation(project_id=project_id, operation_id=criteria.operation_id)
        rows = rows.filter(Q(origin_operation_id=criteria.operation_id) | Q(id__in=touched))
    if (identifier := _as_uuid(criteria.text)) is not None:
        rows = rows.filter(Q(id=identifier) | Q(trace_id=identifier))
    if after is not None:
        rows = rows.filter(id__lt=after)
    return rows


def _needs_window(criteria: RunCriteria) -> bool:
    return bool(criteria.source or criteria.error_code or (criteria.text and _as_uuid(criteria.text) is None))


def _by_looking(rows: QuerySet[Run], criteria: RunCriteria) -> QuerySet[Run]:
    if criteria.source:
        rows = rows.filter(source=criteria.source)
    if criteria.error_code:
        rows = rows.alias(error_text=Cast("last_error", TextField()))
        rows = rows.filter(error_text__contains=f'"code":"{criteria.error_code}"')
    if criteria.text and _as_uuid(criteria.text) is None:
        rows = rows.alias(error_text=Cast("last_error", TextField()), input_text=Cast("input", TextField()))
        places = ("loom_name", "stage", "step", "outcome", "error_text", "input_text")
        anywhere = Q()
        for place in places:
            anywhere |= Q(**{f"{place}__icontains": criteria.text})
        if (end := end_of_id(criteria.text)) is not None:
            rows = rows.alias(id_text=Cast("id", TextField()))
            anywhere |= Q(id_text__endswith=end)
        rows = rows.filter(anywhere)
    return rows


def _as_uuid(text: str) -> uuid.UUID | None:
    try:
        found = uuid.UUID(text.strip())
    except ValueError:
        return None
    return found if str(found) == text.strip().lower() else None


def runs_by_id(*, project_ids: Collection[uuid.UUID], run_ids: Collection[uuid.UUID]) -> list[contracts.RunSummary]:
    """These Runs, as far as they are of the Projects, newest first."""
    current = current_instance().id
    found = listed_runs().filter(project_id__in=project_ids, id__in=run_ids).order_by("-id")
    return [summary_of(run, current=current) for run in found]
