from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from apps.access.services.projects import create_project
from apps.core import clock
from apps.core.commands import LoomsvcCommand


class Command(LoomsvcCommand):
    help = "Create a Project: a name space of its own for Runs, results, Mirrors and credentials."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", metavar="NAME", help="1 to 63 lower-case letters, digits, - and _.")

    def handle(self, *args: Any, **options: Any) -> None:
        project = create_project(name=options["name"], now=clock.now())
        self.stdout.write(
            f"Project {project.name} is there. Next, a credential for it:\n"
            f"  loomsvc token_create --project {project.name} --source agent_ide --label TEXT"
        )
