"""What stands in the bar at the top of every page."""

from __future__ import annotations

from dataclasses import dataclass

from django.contrib import admin
from django.contrib.auth.models import User
from django.http import HttpRequest
from django.urls import reverse

from apps.console.permissions import Permission, operator_of


@dataclass(frozen=True, slots=True)
class Entry:
    """A page in the bar: what it is called, its URL name, and the start of all addresses that belong to it."""

    title: str
    name: str
    #: Who may open it; the list of rows goes by Django's own permissions.
    permission: Permission | None = Permission.SEE


#: In the order in which they are shown.  A page is added here and in ``urls.py``.
ENTRIES = (
    Entry("Needs attention", "admin:index"),
    Entry("Runs", "admin:console_runs"),
    Entry("Looms", "admin:console_looms"),
    Entry("Artifacts", "admin:console_artifacts"),
    Entry("Mirrors", "admin:console_mirrors"),
    Entry("Agents", "admin:console_agents"),
    Entry("Models", "admin:console_models", Permission.MODELS),
    Entry("Workers", "admin:console_health"),
    Entry("Access", "admin:console_access", Permission.CREDENTIALS),
    Entry("Audit", "admin:console_audit"),
    Entry("All rows", "admin:console_rows", None),
)


def _sees_rows(user: User) -> bool:
    """Whether any of Django's lists of rows is theirs to look at."""
    return any(user.has_module_perms(app) for app in {model._meta.app_label for model in admin.site._registry})


def navigation(request: HttpRequest) -> list[dict[str, object]]:
    """The entries that this person may open; ``here`` marks the one that the present page belongs to."""
    if not request.user.is_authenticated:
        return []
    operator = operator_of(request)
    found = []
    for entry in ENTRIES:
        if not (_sees_rows(request.user) if entry.permission is None else operator.may(entry.permission)):
            continue
        address = reverse(entry.name)
        here = request.path == address or (entry.name != "admin:index" and request.path.startswith(address))
        found.append({"title": entry.title, "url": address, "here": here})
    return found
