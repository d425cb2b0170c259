"""``loomsvc doctor``: what is well and what is not, each with its cure."""

from __future__ import annotations

import sys
from typing import Any

from rich.markup import escape
from rich.table import Table

from apps.core.commands import ServiceCommand
from apps.core.findings import Health, examine

_SIGNS = {Health.OK: ("✓", "green"), Health.WARNING: ("!", "yellow"), Health.PROBLEM: ("✗", "red")}


class Command(ServiceCommand):
    help = (
        "Look at folder, disk, database, clock, broker, Looms, models, clients and Entries, and say what to do about "
        "what is not well. Changes nothing. Exit code 1 when something is a problem."
    )

    def handle(self, *, as_json: bool, **options: Any) -> None:
        found = list(examine())
        is_well = all(finding.health is not Health.PROBLEM for _, finding in found)
        if as_json:
            self.print_json(
                {
                    "ok": is_well,
                    "findings": [
                        {"area": area, "status": one.health.value, "message": one.message}
                        | ({"cure": one.cure} if one.cure is not None else {})
                        for area, one in found
                    ],
                }
            )
        else:
            table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
            for heading in ("STATUS", "AREA", "FINDING"):
                table.add_column(heading, overflow="fold")
            for area, one in found:
                sign, style = _SIGNS[one.health]
                cure = f"\n→ {escape(one.cure)}" if one.cure else ""
                table.add_row(f"[{style}]{sign} {one.health.value}[/]", area, f"{escape(one.message)}{cure}")
            self.console.print(table, soft_wrap=False)
        if not is_well:
            sys.exit(1)
