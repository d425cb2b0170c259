"""Diagnostics and Run traces in the terminal."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from django.core.management.base import CommandError
from rich.console import Console
from rich.markup import escape
from rich.pretty import Pretty

from apps.looms.diagnostics import Diagnostic, Severity
from apps.looms.domain.names import LOOM_FILE
from apps.looms.messages import printable
from apps.looms.trial import StepTrace

#: A State that is wider is written over several lines.
_STATE_CELLS = 100
_STYLE = {Severity.ERROR: "bold red", Severity.WARNING: "bold yellow"}


def require_folder(path: Path) -> None:
    """Raises ``CommandError`` (wrong use) when a command was given anything but a folder."""
    if path.name == LOOM_FILE and path.is_file():
        raise CommandError(f"{path} is a file; name its folder, {path.parent}.", returncode=2)
    if not path.is_dir():
        raise CommandError(f"{path} is no folder.", returncode=2)


def shown(text: str) -> str:
    """``text`` as it is, for the console: neither its brackets nor its control characters mean anything."""
    return escape(printable(text))


def print_diagnostics(console: Console, diagnostics: Iterable[Diagnostic]) -> None:
    """One line each: place, severity, message; the suggestion below."""
    for one in diagnostics:
        place = f"{shown(one.place)}: " if one.place else ""
        console.print(f"{place}[{_STYLE[one.severity]}]{one.severity.value}[/] {shown(one.message)}")
        if one.suggestion:
            console.print(f"    {shown(one.suggestion)}")


def print_step(console: Console, trace: StepTrace) -> None:
    """One segment: where, how it ended, what it noted, and State after it."""
    style = "red" if trace.ended == "failed" else "green"
    attempt = f" attempt {trace.attempt}" if trace.attempt > 1 else ""
    visit = f" visit {trace.visit}" if trace.visit > 1 else ""
    console.print(f"[bold]{trace.stage}.{trace.step}[/]{visit}{attempt} [{style}]{shown(trace.ended)}[/]")
    for line in trace.log:
        console.print(f"    [dim]{line.level}[/] {shown(line.message)}")
    if trace.problem is not None:
        console.print(f"    [red]{trace.problem.code}[/] {shown(trace.problem.message)}")
    if trace.state is not None:
        width = min(console.width, _STATE_CELLS)
        console.print(Pretty(trace.state, max_length=20, max_string=200), width=width)


@contextlib.contextmanager
def authors_output_to_stderr() -> Iterator[None]:
    """What a Loom prints while it is imported or run stays out of the command's own result."""
    with contextlib.redirect_stdout(sys.stderr):
        yield
