"""``loomsvc loom_list``: the Looms of this installation, ready or not."""

from __future__ import annotations

from typing import Any

from rich.markup import escape
from rich.table import Table

from apps.core.commands import ServiceCommand
from apps.looms.endpoints import summary
from apps.looms.services import catalog
from apps.looms.terminal import authors_output_to_stderr, print_diagnostics


class Command(ServiceCommand):
    help = "List the Looms in LOOM_PATHS, in installed packages, and the examples."

    def handle(self, *, as_json: bool, **options: Any) -> None:
        with authors_output_to_stderr():
            entries = catalog.entries()
        if as_json:
            self.print_json({"looms": [summary(entry).to_wire() for entry in entries]})
            return
        table = Table("Loom", "Title", "Status", "Release")
        for entry in entries:
            style = "green" if entry.status is catalog.LoomStatus.READY else "red"
            title = escape(entry.loom.graph.title) if entry.loom else ""
            release = entry.loom.digest[:12] if entry.loom else ""
            table.add_row(escape(entry.name), title, f"[{style}]{entry.status.value}[/]", release)
        self.console.print(table, soft_wrap=False)
        for entry in entries:
            if entry.diagnostics:
                self.console.print(f"[bold]{escape(entry.name)}[/]")
                print_diagnostics(self.console, entry.diagnostics)
