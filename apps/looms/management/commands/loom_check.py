"""``loomsvc loom_check FOLDER…``: everything that is wrong with a Loom, with file, line and cure."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser

from apps.core.commands import ServiceCommand
from apps.looms.diagnostics import errors_in
from apps.looms.terminal import authors_output_to_stderr, print_diagnostics, require_folder
from apps.looms.testing import load_folder


class Command(ServiceCommand):
    help = "Check Loom folders in full, without a service. Exit code 1 when one of them has an error."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")

    def handle(self, *, folders: list[Path], as_json: bool, **options: Any) -> None:
        reports: list[dict[str, Any]] = []
        failed = False
        for folder in folders:
            require_folder(folder)
            with authors_output_to_stderr():
                checked = load_folder(folder)
            failed = failed or bool(errors_in(checked.diagnostics))
            reports.append(
                {
                    "folder": str(folder),
                    "loomName": checked.name,
                    "releaseDigest": checked.loom.digest if checked.loom else None,
                    "diagnostics": [one.to_wire() for one in checked.diagnostics],
                }
            )
            if not as_json:
                print_diagnostics(self.console, checked.diagnostics)
                verdict = f"[green]ready[/], Release {checked.loom.digest[:12]}" if checked.loom else "[red]invalid[/]"
                self.console.print(f"[bold]{checked.name}[/] is {verdict}")
        if as_json:
            self.print_json({"looms": reports})
        if failed:
            sys.exit(1)
