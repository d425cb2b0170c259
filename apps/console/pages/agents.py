"""Background agents: which there are, what Projects used of models, and which keys they have."""

from __future__ import annotations

import datetime as dt
import uuid

from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from apps.agent_sessions.selectors.overview import SessionPage, list_keys, session_page, usage_since
from apps.agent_sessions.services.models import known_models
from apps.agent_sessions.services.provider_keys import keyed_providers
from apps.console.page import page, render
from apps.console.pages.choosing import choices_named, page_in, project_in
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

    def read(cursor: str | None) -> SessionPage:
        return session_page(project_id=project, limit=ROWS, cursor=cursor)

    found, wrong = page_in(request, read, "this Project")
    seen = list(operator.projects)
    since = clock.now().astimezone(dt.UTC).date() - dt.timedelta(days=DAYS - 1)
    keys = list_keys(project_ids=seen, limit=MOST_KEYS) if operator.may(Permission.KEYS) else None
    missing, catalogue_problem = ([], "") if keys is None else _without_key(project, operator.projects[project])
    context = {
        "title": "Background agents",
        "found": found,
        "wrong": wrong,
        "projects": choices_named(operator.projects[project], operator.projects.values()),
        "project": operator.projects[project],
        "usage": usage_since(project_ids=seen, since=since, limit=MOST_USED),
        "days": DAYS,
        "most_used": MOST_USED,
        "keys": None if keys is None else [(key, _where_to_set(key.project, key.provider)) for key in keys],
        "most_keys": MOST_KEYS,
        "missing": missing,
        "catalogue_problem": catalogue_problem,
    }
    return render(request, "console/agents.html", context)


def _where_to_set(project: str, provider: str) -> str:
    """The page on which a key is entered, tested and forgotten."""
    return reverse("admin:provider_key_setup", args=[project, provider])


def _without_key(project_id: uuid.UUID, project: str) -> tuple[list[tuple[str, str]], str]:
    """Providers that the Project has no key for, each with where to enter one; why they cannot be told, if so."""
    try:
        providers = known_models().providers()
    except LoomError as error:
        return [], error.message
    # Asked for by itself: the list of keys is cut.
    keyed = keyed_providers(project_id)
    missing = [one for one in providers if one.needs_key and one.id not in keyed]
    return [(one.display_name, _where_to_set(project, one.id)) for one in missing], ""
