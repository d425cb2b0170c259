"""``loomsvc loom_graph FOLDER | RUN``: a Loom's picture, as a tree, as Mermaid text, or as JSON."""

from __future__ import annotations

import sys
import uuid
from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser
from rich.console import Console

from apps.core.commands import ServiceCommand
from apps.looms.domain.graph import LoomGraph
from apps.looms.domain.graph_json import graph_json
from apps.looms.pictures import mermaid as mermaid_text
from apps.looms.pictures import tree
from apps.looms.terminal import authors_output_to_stderr, print_diagnostics, require_folder, shown
from apps.looms.testing import load_folder
from apps.runs.selectors.pictures import RunPicture, as_run_id, picture_of


class Command(ServiceCommand):
    help = (
        "Draw the Loom in FOLDER, without a service; exit code 1 when it does not load. With the id of a Run in its "
        "place, draw the Run's Release from the ledger: where the Run stands, and which Steps it has visited."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("subject", metavar="FOLDER|RUN-ID")
        parser.add_argument("--mermaid", action="store_true", help="print Mermaid text")

    def handle(self, *, subject: str, mermaid: bool, as_json: bool, **options: Any) -> None:
        run_id = None if Path(subject).is_dir() else as_run_id(subject)
        picture = None if run_id is None else _of_run(run_id)
        graph = picture.graph if picture else self._of_folder(Path(subject))
        marks = picture.marks if picture else {}
        if as_json:
            body = {"loomName": graph.loom, "mermaid": mermaid_text(graph, marks), "graph": graph_json(graph)}
            self.print_json({**body, **(picture.to_wire() if picture else {})})
        elif mermaid:
            self.stdout.write(mermaid_text(graph, marks))
        else:
            if picture:
                self._print_heading(picture)
            self.console.print(tree(graph, marks), soft_wrap=False)

    def _of_folder(self, folder: Path) -> LoomGraph:
        require_folder(folder)
        with authors_output_to_stderr():
            checked = load_folder(folder)
        if checked.loom is None:
            print_diagnostics(Console(stderr=True, highlight=False, soft_wrap=True), checked.diagnostics)
            self.stderr.write(f"{checked.name} does not load.")
            sys.exit(1)
        return checked.loom.graph

    def _print_heading(self, picture: RunPicture) -> None:
        self.console.print(f"Run [bold]{picture.run_id}[/] is {shown(picture.status)}.")
        if picture.problem:
            self.console.print(f"[red]{shown(picture.problem)}[/]")


def _of_run(run_id: uuid.UUID) -> RunPicture:
    with authors_output_to_stderr():
        return picture_of(run_id=run_id)
