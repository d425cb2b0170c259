"""``loomsvc loom_graph FOLDER``: a Loom's picture, as a tree, as Mermaid text, or as JSON."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser
from rich.console import Console

from apps.core.commands import ServiceCommand
from apps.looms.domain.graph_json import graph_json
from apps.looms.pictures import mermaid as mermaid_text
from apps.looms.pictures import tree
from apps.looms.terminal import authors_output_to_stderr, print_diagnostics, require_folder
from apps.looms.testing import load_folder


class Command(ServiceCommand):
    help = "Draw the Loom in FOLDER, without a service. Exit code 1 when it does not load."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("folder", type=Path, metavar="FOLDER")
        parser.add_argument("--mermaid", action="store_true", help="print Mermaid text")

    def handle(self, *, folder: Path, mermaid: bool, as_json: bool, **options: Any) -> None:
        require_folder(folder)
        with authors_output_to_stderr():
            checked = load_folder(folder)
        if checked.loom is None:
            print_diagnostics(Console(stderr=True, highlight=False, soft_wrap=True), checked.diagnostics)
            self.stderr.write(f"{checked.name} does not load.")
            sys.exit(1)
        graph = checked.loom.graph
        if as_json:
            self.print_json({"loomName": graph.loom, "mermaid": mermaid_text(graph), "graph": graph_json(graph)})
        elif mermaid:
            self.stdout.write(mermaid_text(graph))
        else:
            self.console.print(tree(graph), soft_wrap=False)
