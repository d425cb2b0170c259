"""``loomsvc loom_test FOLDER``: play a Loom's scripts in memory and see State after each Step."""

from __future__ import annotations

import pdb
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser
from rich.console import Console
from rich.markup import escape

from apps.core.commands import ServiceCommand
from apps.looms.scripts import Played, play_script, read_script
from apps.looms.terminal import authors_output_to_stderr, print_diagnostics, print_step, require_folder
from apps.looms.testing import LoomInvalid, ScriptMismatch
from apps.looms.trial import LoomRun, StepTrace


class Command(ServiceCommand):
    help = (
        "Run the Loom in FOLDER in memory by its scripts (tests/*.yaml, or --script), without a service. "
        "Exit code 1 when something is not as a script expects."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("folder", type=Path, metavar="FOLDER")
        parser.add_argument("--script", type=Path, metavar="FILE", help="this script alone")
        parser.add_argument("--until", metavar="STEP", help="stop after this Step (step, or stage.step)")
        parser.add_argument("--pdb", action="store_true", help="open the debugger where Code raises")

    def handle(
        self,
        *,
        folder: Path,
        script: Path | None,
        until: str | None,
        pdb: bool,
        as_json: bool,
        **options: Any,
    ) -> None:
        require_folder(folder)
        scripts = [script] if script is not None else sorted((folder / "tests").glob("*.yaml"))
        if not scripts:
            raise CommandError(f"{folder} has no tests/*.yaml; name a script with --script.", returncode=2)
        console = Console(stderr=True, highlight=False, soft_wrap=True) if as_json else self.console
        reports = [self._play(folder, one, until, use_pdb=pdb, console=console) for one in scripts]
        if as_json:
            self.print_json({"scripts": reports})
        if not all(report["passed"] for report in reports):
            sys.exit(1)

    def _play(self, folder: Path, file: Path, until: str | None, *, use_pdb: bool, console: Console) -> dict[str, Any]:
        try:
            text = file.read_text(encoding="utf-8")
        except OSError as error:
            raise CommandError(f"{file} cannot be read: {error.strerror}.", returncode=2) from None
        except UnicodeDecodeError:
            raise CommandError(f"{file} cannot be read: save it as UTF-8.", returncode=2) from None
        console.print(f"[bold]{escape(file.name)}[/]")
        script, problems = read_script(text, file.name)
        if script is None:
            print_diagnostics(console, problems)
            return {"script": file.name, "passed": False, "mismatches": [one.message for one in problems]}

        def show(trace: StepTrace) -> None:
            print_step(console, trace)

        try:
            with authors_output_to_stderr():
                played = play_script(
                    folder,
                    script,
                    until=until,
                    on_step=show,
                    on_exception=_debug if use_pdb else None,
                )
        except LoomInvalid as error:
            print_diagnostics(console, error.diagnostics)
            return {"script": file.name, "passed": False, "mismatches": ["The Loom does not load."]}
        except (ScriptMismatch, ValueError) as error:
            console.print(f"[red]failed[/] {escape(str(error))}")
            return {"script": file.name, "passed": False, "mismatches": [str(error)]}
        return _report(console, file.name, played)


def _debug(error: BaseException) -> None:
    """The debugger at the innermost frame; it speaks on the real terminal."""
    debugger = pdb.Pdb(stdout=sys.__stdout__)
    debugger.reset()
    debugger.interaction(None, error.__traceback__)


def _report(console: Console, name: str, played: Played) -> dict[str, Any]:
    for mismatch in played.mismatches:
        console.print(f"[red]failed[/] {escape(mismatch)}")
    run = played.run
    if not played.mismatches:
        console.print(f"[green]passed[/] {escape(_ending(run))}")
    return {
        "script": name,
        "passed": not played.mismatches,
        "mismatches": list(played.mismatches),
        "status": run.status,
        "outcome": run.outcome,
        "error": None if run.problem is None else asdict(run.problem),
        "steps": run.path(),
        "state": run.state,
    }


def _ending(run: LoomRun) -> str:
    if run.problem is not None:
        return f"{run.status} in {run.problem.place} with {run.problem.code}: {run.problem.message}"
    return f"{run.status}: {run.outcome}" if run.outcome else run.status
