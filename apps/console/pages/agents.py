"""Background agents: which there are, what Projects used of models, and which keys they have."""

from __future__ import annotations

import datetime as dt

from django.http import HttpRequest, HttpResponse
from django.urls import NoReverseMatch, reverse

from apps.agent_sessions.selectors.overview import KeyEntry, list_keys, session_page, usage_since
from apps.console.page import page, render
from apps.console.pages.choosing import project_in, projects_to_choose
from apps.console.permissions import Operator, Permission
from apps.core import clock
from apps.core.errors import LoomError

ROWS = 50
DAYS = 30
MOST_USED = 200
MOST_KEYS = 200


@page(Permission.SEE)
def agents(request: HttpRequest, operator: Operator) -> HttpResponse:
    """One Project's background agents; usage and keys of every Project that the operator sees."""
    project = project_in(request, operator)
    wrong = ""
    try:
        found = session_page(project_id=project, limit=ROWS, cursor=request.GET.get("cursor") or None)
    except LoomError:
        found = session_page(project_id=project, limit=ROWS)
        wrong = "That page does not belong to this Project; this is the first one."
    seen = list(operator.projects)
    since = clock.now().astimezone(dt.UTC).date() - dt.timedelta(days=DAYS - 1)
    keys = list_keys(project_ids=seen, limit=MOST_KEYS) if operator.may(Permission.KEYS) else None
    context = {
        "title": "Background agents",
        "found": found,
        "wrong": wrong,
        "projects": projects_to_choose(operator, project),
        "project": operator.projects[project],
        "usage": usage_since(project_ids=seen, since=since, limit=MOST_USED),
        "days": DAYS,
        "most_used": MOST_USED,
        "keys": None if keys is None else [(key, _where_to_set(key)) for key in keys],
    }
    return render(request, "console/agents.html", context)


def _where_to_set(key: KeyEntry) -> str:
    """The page of the key, where this installation has one."""
    try:
        return reverse("admin:provider_key_setup", args=[key.project, key.provider])
    except NoReverseMatch:
        return ""
