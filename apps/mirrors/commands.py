"""What the commands for Mirrors share: they work on the ledger itself, as the operator (contract section 11)."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser
from pydantic import TypeAdapter, ValidationError
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from apps.access.domain.entries import CREDENTIAL_SOURCES, MCP_ENTRIES
from apps.access.selectors.projects import project_named, project_names
from apps.access.services.projects import DEFAULT_PROJECT
from apps.core.caller import Caller, Source
from apps.core.commands import FILE_CELLS, ServiceCommand
from apps.core.contracts import UuidText
from apps.mirrors.bundles.taking import Progress as Told
from apps.mirrors.contracts import MirrorView
from apps.mirrors.models import Mirror
from apps.mirrors.selectors.mirrors import find_mirror

#: How the audit trail names whoever may run commands on the ledger.
OPERATOR = "operator"
_ENTRY_OF_SOURCE = {entry.source: entry.path for entry in reversed(MCP_ENTRIES)}


class MirrorCommand(ServiceCommand):
    """A command on Mirrors; what takes long shows a bar in a terminal."""

    @contextmanager
    def progress(self, what: str) -> Iterator[Told]:
        """Show how many bytes have been done, where somebody can see it."""
        console = Console(stderr=True)
        columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeElapsedColumn())
        with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
            task = bar.add_task(what, total=None)
            yield lambda size: bar.advance(task, size)

    def print_mirrors(self, mirrors: list[MirrorView]) -> None:
        """A table of Mirrors."""
        table = Table(box=None, pad_edge=False, header_style="bold")
        for heading in ("MIRROR", "PROJECT", "LOOM", "RUN", "BOUNDARY", "KIND", "BYTES", "CREATED"):
            table.add_column(heading, no_wrap=True)
        for one in mirrors:
            numbers = (str(one.boundary), one.kind, str(one.size_bytes), one.created_at)
            table.add_row(*map(Text, (one.mirror_id, one.project, one.loom_name, one.run_id, *numbers)))
        # As wide as it is: an id that was cut to fit the terminal names nothing.
        console = self.console
        console.width = FILE_CELLS
        console.print(table)


def add_project(parser: CommandParser, *, what: str, option: str = "--project") -> None:
    parser.add_argument(option, metavar="NAME", default=DEFAULT_PROJECT, help=f"{what} (default: {DEFAULT_PROJECT})")


def add_source(parser: CommandParser) -> None:
    parser.add_argument(
        "--source",
        choices=[source.value for source in CREDENTIAL_SOURCES],
        default=Source.CLI.value,
        help="the Entry whose policy the Run gets: who reasons in its Agent Steps (default: %(default)s)",
    )


def operator_in(project: str, source: str = Source.CLI) -> Caller:
    """The operator, as a caller in the Project of this name; ``NOT_FOUND`` when there is none."""
    found = project_named(project)
    return Caller(
        project_id=found.pk,
        project_name=found.name,
        principal=OPERATOR,
        source=Source(source),
        entry=_ENTRY_OF_SOURCE[Source(source)],
    )


def uuid_argument(text: str) -> str:
    """An id as the wire takes it."""
    try:
        return str(TypeAdapter[str](UuidText).validate_python(text))
    except ValidationError:
        raise CommandError(f"{text} is no UUID.") from None


def held_mirror(text: str) -> Mirror:
    """The Mirror of this id, whichever Project holds it; ``NOT_FOUND`` when none does."""
    projects = {project.id: project.name for project in project_names()}
    return find_mirror(projects=projects, mirror_id=uuid_argument(text))


def path_argument(text: str) -> Path:
    """Where a bundle is; beside the present folder, as people expect."""
    return Path(text).expanduser()


def one_of(**given: Any) -> None:
    """Wrong usage unless exactly one was given."""
    names = [f"--{name}" if name.islower() else name for name in given]
    if sum(value is not None for value in given.values()) != 1:
        print(f"Give either {' or '.join(names)}.", file=sys.stderr)  # noqa: T201 - as argparse does
        sys.exit(2)
