"""The base of every management command of loomsvc."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import IO, Any, cast

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import OperationalError, ProgrammingError
from rich.console import Console

from apps.core import conf
from apps.core.database import found_no_room
from apps.core.errors import LoomError
from apps.core.outages import outage

#: How wide a result that goes to a file may get.
FILE_CELLS = 1000


class LoomsvcCommand(BaseCommand):
    """Takes ``--data``, and says in one line what was wrong."""

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> CommandParser:
        parser = super().create_parser(prog_name, subcommand, **kwargs)
        # Read before Django's settings are (loomsvc/cli.py); here so that it is known and explained.
        parser.add_argument("--data", metavar="DIR", help="The data folder of an embedded service (default: .loomsvc).")
        return parser

    def execute(self, *args: Any, **options: Any) -> str | None:
        try:
            return super().execute(*args, **options)
        except LoomError as error:
            raise CommandError(one_line(error)) from None
        except (OperationalError, ProgrammingError) as error:
            if found_no_room(error):
                raise CommandError(one_line(outage(error))) from error
            raise CommandError(
                f"The ledger cannot be used ({type(error).__name__}). Check --data or DATABASE_URL; "
                "`loomsvc migrate` sets up a new ledger."
            ) from error


class ServiceCommand(LoomsvcCommand):
    """A command whose result goes to stdout, for people or as JSON, and everything else to stderr.

    Exit codes: 0 done, 1 not as it should be, 2 wrong use.
    """

    requires_system_checks: list[str] = []
    #: Whether the command can print its result as JSON.
    has_json = True

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> CommandParser:
        parser = super().create_parser(prog_name, subcommand, **kwargs)
        if self.has_json:
            parser.add_argument("--json", action="store_true", dest="as_json", help="print the result as JSON")
        return parser

    @property
    def console(self) -> Console:
        """Where the result goes; plain text with no line cut when it is no terminal."""
        file = cast("IO[str]", self.stdout._out)
        return Console(file=file, highlight=False, soft_wrap=True, width=None if file.isatty() else FILE_CELLS)

    def print_json(self, body: Any) -> None:
        """The result for a script."""
        self.stdout.write(json.dumps(body, ensure_ascii=False, indent=2))


def data_option() -> str:
    """What a command needs to reach the same service again: nothing, or the folder that was chosen."""
    folder = conf.settings().data_dir
    return "" if folder == Path(".loomsvc").absolute() else f" --data {shlex.quote(str(folder))}"


def one_line(error: LoomError) -> str:
    """``CODE: message`` and every issue that the message does not name."""
    others = [f"{issue.path or 'the input'}: {issue.suggestion}" for issue in error.issues[1:]]
    return "; ".join([f"{error.code}: {error.message}", *others])
