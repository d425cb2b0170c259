"""``loomsvc loom_list``: the Looms of this installation, ready or not."""

from __future__ import annotations

from typing import Any

from rich.table import Table

from apps.core.commands import ServiceCommand
from apps.looms.endpoints import summary
from apps.looms.services import catalog
from apps.looms.terminal import authors_output_to_stderr, print_diagnostics, shown

_SIGNS = {catalog.LoomStatus.READY: ("✓", "green"), catalog.LoomStatus.INVALID: ("✗", "red")}


class Command(ServiceCommand):
    help = "List the Looms in LOOM_PATHS, in installed packages, and the examples."

    def handle(self, *, as_json: bool, **options: Any) -> None:
        with authors_output_to_stderr():
            entries = catalog.entries()
        if as_json:
            self.print_json({"looms": [summary(entry).to_wire() for entry in entries]})
            return
        table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
        for heading in ("STATUS", "LOOM", "TITLE", "RELEASE"):
            table.add_column(heading, overflow="fold")
        for entry in entries:
            sign, style = _SIGNS[entry.status]
            title = shown(entry.loom.graph.title) if entry.loom else "-"
            release = entry.loom.digest[:12] if entry.loom else "-"
            table.add_row(f"[{style}]{sign} {entry.status.value}[/]", shown(entry.name), title, release)
        self.console.print(table, soft_wrap=False)
        for entry in entries:
            if entry.diagnostics:
                self.console.print(f"\n[bold]{shown(entry.name)}[/]")
                print_diagnostics(self.console, entry.diagnostics)
