"""Needs attention: what waits for a person, what is stuck, each with its next step."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse

from apps.agents.selectors.watching import indeterminate_tool_calls, unclaimed_calls
from apps.console.page import page, render
from apps.console.permissions import Operator, Permission
from apps.core import clock
from apps.ledger.selectors.operations import indeterminate_operations
from apps.looms.services.catalog import problems
from apps.runs.selectors import attention as needy

#: Rows that a section shows; where there are more, its number says "50+".
MOST = 50
FAILED_WITHIN = dt.timedelta(days=1)
#: Section → what it is called, in the order in which they are shown.
TITLES = {
    "people": "Waits for a person",
    "workers": "Workers that went silent",
    "overdue": "Due, and no worker takes them",
    "stopped": "Stopped by the service",
    "agents": "Agent Steps that no agent has claimed",
    "operations": "Operations of unknown effect",
    "tools": "Tool calls of unknown effect",
    "looms": "Looms that do not load",
    "failed": "Failed within a day",
}


@dataclass(frozen=True, slots=True)
class Section:
    """One kind of trouble: what it is, what to do about it, and the rows that have it."""

    key: str
    cure: str
    rows: Sequence[Any]

    @property
    def title(self) -> str:
        return TITLES[self.key]

    @property
    def number(self) -> str:
        return f"{MOST}+" if len(self.rows) > MOST else str(len(self.rows))

    @property
    def is_trouble(self) -> bool:
        """Something is wrong; else somebody is only waited for."""
        return self.key not in ("people", "agents")

    @property
    def shown(self) -> Sequence[Any]:
        return self.rows[:MOST]


@page(Permission.SEE)
def attention(request: HttpRequest, operator: Operator) -> HttpResponse:
    """The home of the console; as many statements whatever there is."""
    sections = [section for section in _sections(operator) if section.rows]
    context = {
        "title": "Needs attention",
        "sections": sections,
        "projects": operator.projects,
        "answerable": operator.where(Permission.ANSWER),
    }
    return render(request, "console/attention.html", context, live="console/attention_live.html")


def _sections(operator: Operator) -> list[Section]:
    seen, most = list(operator.projects), MOST + 1
    left = needy.left_by_workers(project_ids=seen, limit=most)
    return [
        Section(
            "people",
            "Open the Run and answer." if operator.may(Permission.ANSWER) else "Somebody who may answer has to.",
            needy.waiting_for_people(project_ids=seen, limit=most),
        ),
        Section(
            "workers",
            "Look whether the worker lives and whether a sweep runs; a sweep ends or repeats what they held.",
            sorted({run.worker: run for run in left}.values(), key=lambda run: run.since),
        ),
        Section(
            "overdue",
            "Look whether workers run, and have enough of them.",
            needy.taken_by_nobody(project_ids=seen, limit=most),
        ),
        Section(
            "stopped",
            "Mend what the reason says, then resume the Run.",
            needy.paused_by_the_service(project_ids=seen, limit=most),
        ),
        Section(
            "agents",
            "Connect an agent at the Run's Project; it reads the Run and claims the call.",
            unclaimed_calls(project_ids=seen, limit=most),
        ),
        Section(
            "operations",
            "Open the Run, see what it shows, and do not send the operation again.",
            indeterminate_operations(project_ids=seen, limit=most),
        ),
        Section(
            "tools",
            "Look outside whether the Tool did its work before anyone has it done anew.",
            indeterminate_tool_calls(project_ids=seen, limit=most),
        ),
        Section("looms", "Mend the file; it is loaded at the next look.", problems()[:most]),
        Section(
            "failed",
            "Open the Run: it says where and why.",
            needy.failed_since(project_ids=seen, since=clock.now() - FAILED_WITHIN, limit=most),
        ),
    ]
