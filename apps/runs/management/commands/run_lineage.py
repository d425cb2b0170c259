"""``loomsvc run_lineage RUN-ID``: the Runs of a trace as a tree, and where one of them can be forked."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError, CommandParser
from rich.table import Table
from rich.tree import Tree

from apps.core.commands import ServiceCommand
from apps.looms.terminal import shown
from apps.runs.contracts import BoundaryView, LineageEntry
from apps.runs.selectors.boundaries import latest_boundaries
from apps.runs.selectors.lineage import lineage_of
from apps.runs.selectors.pictures import as_run_id

_STYLE = {"completed": "green", "failed": "red", "cancelled": "yellow", "paused": "cyan"}


class Command(ServiceCommand):
    help = (
        "Show the Runs that share a trace as a tree: which was forked or restored from which, and at what boundary. "
        "Below it, the boundaries of the Run that was named, the newest first: each completed Step with its outcome "
        "and time. `loomsvc fork_run RUN-ID --boundary N` begins another Run at one of them."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("run_id", metavar="RUN-ID")
        parser.add_argument(
            "--boundaries", type=int, default=20, metavar="N", help="how many boundaries to show (default: 20)"
        )

    def handle(self, *, run_id: str, boundaries: int, as_json: bool, **options: Any) -> None:
        key = as_run_id(run_id)
        if key is None:
            raise CommandError(f"{run_id} is no Run id; loomsvc list_runs shows them.", returncode=2)
        if boundaries < 0:
            raise CommandError("--boundaries takes a number from 0.", returncode=2)
        lineage = lineage_of(key)
        latest = latest_boundaries(key, limit=boundaries)[:boundaries]
        if as_json:
            self.print_json({**lineage.to_wire(), "boundaries": [one.to_wire() for one in latest]})
            return
        self.console.print(_tree(lineage.trace_id, lineage.runs, named=str(key)))
        if lineage.truncated:
            self.console.print("There are more Runs of this trace; these are the oldest.")
        if latest:
            self.console.print(_table(latest, str(key)))


def _tree(trace_id: str, runs: list[LineageEntry], *, named: str) -> Tree:
    root = Tree(f"Trace [bold]{trace_id}[/]")
    nodes: dict[str, Tree] = {}
    for run in runs:
        above = root if run.parent_run_id is None else nodes[run.parent_run_id]
        nodes[run.run_id] = above.add(_line(run, is_named=run.run_id == named))
    return root


def _line(run: LineageEntry, *, is_named: bool) -> str:
    name = f"[bold]{run.run_id}[/]" if is_named else run.run_id
    style = _STYLE.get(run.status, "blue")
    outcome = f" {shown(run.outcome)}" if run.outcome else ""
    held = (
        f"boundary {run.boundary}"
        if run.boundary == run.first_boundary
        else (f"boundaries {run.first_boundary} to {run.boundary}")
    )
    return f"{_how(run)}{name} [{style}]{run.status}[/]{outcome}, {held}, {run.created_at}"


def _how(run: LineageEntry) -> str:
    if run.restored_from is None:
        return ""
    how = "forked" if run.restored_from.mirror_id is None else "restored"
    source = "" if run.parent_run_id else f" from {run.restored_from.run_id}"
    return f"{how}{source} at {run.restored_from.boundary}: "


def _table(boundaries: list[BoundaryView], run_id: str) -> Table:
    table = Table(title=f"Boundaries of {run_id}", title_justify="left", box=None, pad_edge=False)
    table.add_column("boundary", justify="right")
    for heading in ("Step", "visit", "outcome", "time"):
        table.add_column(heading)
    for one in boundaries:
        outcome = "(begins here)" if one.outcome is None else shown(one.outcome)
        table.add_row(str(one.boundary), shown(f"{one.stage}/{one.step}"), str(one.visit), outcome, one.at)
    return table
