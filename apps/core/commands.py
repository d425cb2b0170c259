"""The base of every management command of loomsvc."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import OperationalError, ProgrammingError

from apps.core.errors import LoomError


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
            raise CommandError(
                f"The ledger cannot be used ({type(error).__name__}). Check --data or DATABASE_URL; "
                "`loomsvc migrate` sets up a new ledger."
            ) from error


def one_line(error: LoomError) -> str:
    """``CODE: message`` and every issue that the message does not name."""
    others = [f"{issue.path or 'the input'}: {issue.suggestion}" for issue in error.issues[1:]]
    return "; ".join([f"{error.code}: {error.message}", *others])
