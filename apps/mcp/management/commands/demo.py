import sys
from typing import Any

from django.core.management.base import CommandError, CommandParser

from apps.core import conf
from apps.core.commands import LoomsvcCommand
from apps.core.errors import LoomError
from apps.mcp import terminal
from apps.mcp.arguments import read_answers
from apps.mcp.child import DidNotStart
from apps.mcp.client import AnswerLost
from apps.mcp.commands import STOPPED
from apps.mcp.demonstration import demonstrate


class Command(LoomsvcCommand):
    help = (
        "See it work: start a service on a fresh data folder and let agents that follow a script build a small "
        "program with the Loom `intent`, over the official MCP client. What they ask, you are asked here. The exit "
        "code is 0 only if the Run completed."
    )
    requires_system_checks: Any = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--answers",
            metavar="FILE",
            type=read_answers,
            help="JSON list of answers, taken in order instead of asking",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        console = terminal.console()
        read = input if sys.stdin.isatty() and sys.stdout.isatty() else None
        try:
            completed = demonstrate(
                data=conf.settings().data_dir, console=console, answers=options["answers"], read=read
            )
        except (DidNotStart, AnswerLost) as error:
            raise CommandError(str(error)) from None
        except KeyboardInterrupt:
            sys.exit(STOPPED)
        except LoomError as error:
            terminal.console(sys.stderr).print(terminal.refusal(error))
            completed = False
        if not completed:
            sys.exit(1)
