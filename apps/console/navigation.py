"""What stands in the bar at the top of every page."""

from __future__ import annotations

from dataclasses import dataclass

from django.http import HttpRequest
from django.urls import reverse


@dataclass(frozen=True, slots=True)
class Entry:
    """A page in the bar: what it is called, its URL name, and the start of all addresses that belong to it."""

    title: str
    name: str


#: In the order in which they are shown.  A page is added here and in ``urls.py``.
ENTRIES = (
    Entry("Needs attention", "admin:index"),
    Entry("Runs", "admin:console_runs"),
    Entry("Looms", "admin:console_looms"),
    Entry("Artifacts", "admin:console_artifacts"),
    Entry("Mirrors", "admin:console_mirrors"),
    Entry("Agents", "admin:console_agents"),
    Entry("Workers", "admin:console_health"),
    Entry("Access", "admin:console_access"),
    Entry("Audit", "admin:console_audit"),
    Entry("All rows", "admin:console_rows"),
)


def navigation(request: HttpRequest) -> list[dict[str, object]]:
    """The entries with their addresses; ``here`` marks the one that the present page belongs to."""
    found = []
    for entry in ENTRIES:
        address = reverse(entry.name)
        here = request.path == address or (entry.name != "admin:index" and request.path.startswith(address))
        found.append({"title": entry.title, "url": address, "here": here})
    return found
