"""Workers and health: this instance, what workers hold and when they last gave a sign, what is due."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

from django.conf import settings
from django.db import connection
from django.http import HttpRequest, HttpResponse

from apps.console.page import page, render
from apps.console.permissions import Operator, Permission
from apps.core import clock, conf
from apps.ledger.selectors.audit import latest_instances
from apps.looms.services.catalog import problems
from apps.runs.selectors.health import HeldRun, held_runs, queue_of

MOST_HELD = 200
MOST_DUE = 20
MOST_INSTANCES = 10


@dataclass(frozen=True, slots=True)
class Worker:
    """A worker that holds Runs; ``seen_at`` is when it last renewed a lease."""

    name: str
    held: list[HeldRun]
    seen_at: dt.datetime | None

    @property
    def is_silent(self) -> bool:
        return all(run.is_silent for run in self.held)


@page(Permission.SEE)
def health(request: HttpRequest, operator: Operator) -> HttpResponse:
    """As many statements whatever there is."""
    seen = list(operator.projects)
    held = held_runs(project_ids=seen, limit=MOST_HELD + 1)
    queue = queue_of(project_ids=seen, limit=MOST_DUE + 1)
    instances = latest_instances(limit=MOST_INSTANCES)
    now = clock.now()
    context = {
        "title": "Workers and health",
        "instance": next((each for each in instances if each.is_current), None),
        "instances": instances,
        "database": connection.vendor,
        "broker": "inside this process" if settings.EMBEDDED else "Redis",
        "settings": conf.settings(),
        "workers": _workers(held[:MOST_HELD]),
        "held_is_cut": len(held) > MOST_HELD,
        "most_held": MOST_HELD,
        "due": queue.due[:MOST_DUE],
        "due_number": f"{MOST_DUE}+" if len(queue.due) > MOST_DUE else str(len(queue.due)),
        "oldest": queue.due[0][4] if queue.due else None,
        "later": queue.later[:MOST_DUE],
        "later_number": f"{MOST_DUE}+" if len(queue.later) > MOST_DUE else str(len(queue.later)),
        "problems": problems(),
        "now": now,
    }
    return render(request, "console/health.html", context, live="console/health_live.html")


def _workers(held: list[HeldRun]) -> list[Worker]:
    found: dict[str, list[HeldRun]] = {}
    for run in held:
        found.setdefault(run.worker, []).append(run)
    lease = dt.timedelta(seconds=conf.settings().lease_seconds)
    workers = []
    for name, runs in found.items():
        until = [run.lease_until for run in runs if run.lease_until is not None]
        workers.append(Worker(name, runs, max(until) - lease if until else None))
    return sorted(workers, key=lambda worker: (not worker.is_silent, worker.name))
