import sys
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser

from apps.core import conf
from apps.core.commands import LoomsvcCommand
from apps.core.errors import LoomError
from apps.mcp import terminal
from apps.mcp.child import DidNotStart
from apps.mcp.client import AnswerLost
from apps.mcp.commands import STOPPED
from apps.mcp.demonstration import demonstrate


class Command(LoomsvcCommand):
    help = (
        "See it work: start a service on a fresh data folder, run the Loom `inventory` over a folder through the "
        "official MCP client, and show what came of it. The exit code is 0 only if the Run completed."
    )
    requires_system_checks: Any = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "folder", nargs="?", type=Path, default=Path(), help="folder to look at (default: the present one)"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        subject = options["folder"].absolute()
        if not subject.is_dir():
            raise CommandError(f"{subject} is no folder.")
        console = terminal.console()
        try:
            completed = demonstrate(subject=subject, data=conf.settings().data_dir, console=console)
        except (DidNotStart, AnswerLost) as error:
            raise CommandError(str(error)) from None
        except KeyboardInterrupt:
            sys.exit(STOPPED)
        except LoomError as error:
            terminal.console(sys.stderr).print(terminal.refusal(error))
            completed = False
        if not completed:
            sys.exit(1)
