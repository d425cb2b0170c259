from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from apps.access.selectors.projects import project_named, project_names
from apps.mirrors.commands import MirrorCommand
from apps.mirrors.contracts import ListMirrors
from apps.mirrors.selectors.mirrors import list_mirrors


class Command(MirrorCommand):
    help = "List the Mirrors of all Projects, newest first."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--project", metavar="NAME", help="those of this Project only")
        parser.add_argument("--limit", metavar="N", type=int, default=50, help="at most this many (default: 50)")
        parser.add_argument("--cursor", metavar="TEXT", help="go on after an earlier list: its nextCursor")

    def handle(self, *, project: str | None, limit: int, cursor: str | None, as_json: bool, **_: Any) -> None:
        found = [project_named(project)] if project else project_names()
        asked = {"limit": limit, **({"cursor": cursor} if cursor else {})}
        page = list_mirrors(projects={one.id: one.name for one in found}, query=ListMirrors.parse(asked))
        if as_json:
            self.print_json(page.to_wire())
        elif page.mirrors:
            self.print_mirrors(page.mirrors)
            if page.next_cursor:
                self.console.print(f"There are more: --cursor {page.next_cursor}")
        else:
            self.console.print("No Mirrors. Make one: loomsvc mirror_export TRACE-ID")
