from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError, CommandParser

from apps.access.selectors.projects import project_named
from apps.access.services.credentials import grant_mirror_writes
from apps.core.commands import LoomsvcCommand
from apps.core.errors import LoomError


class Command(LoomsvcCommand):
    help = "Let a credential write Mirrors into further Projects, and see their Mirrors; or no longer, with --revoke."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("public_id", metavar="PUBLIC_ID", help="As `loomsvc token_list` shows it.")
        parser.add_argument("--mirror-writes", metavar="NAME", nargs="+", required=True, help="These Projects.")
        parser.add_argument("--revoke", action="store_true", help="Take it back.")

    def handle(self, *args: Any, **options: Any) -> None:
        projects = [project_named(name) for name in options["mirror_writes"]]
        try:
            credential = grant_mirror_writes(
                public_id=options["public_id"], projects=projects, revoke=options["revoke"]
            )
        except LoomError:
            raise CommandError("No credential has this public id; `loomsvc token_list` shows them all.") from None
        names = sorted(project.name for project in credential.mirror_projects.all())
        self.stdout.write(
            f"Credential {credential.public_id} ({credential.label}) writes Mirrors into "
            f"{', '.join([credential.project.name, *names])}."
        )
