"""The graph that a Release declares, for whoever only looks: none of the Loom's code is imported or run."""

from __future__ import annotations

from collections.abc import Mapping

from apps.looms.checking.graph_rules import check_graph
from apps.looms.checking.loom_file import read_loom_file
from apps.looms.checking.yaml_tree import read_yaml
from apps.looms.diagnostics import errors_in
from apps.looms.domain.graph import LoomGraph
from apps.looms.domain.names import LOOM_FILE


def declared_graph(files: Mapping[str, bytes]) -> LoomGraph | None:
    """As the package's ``loom.yaml`` has it; ``None`` when that cannot be read or does not hang together.

    A Release may have come in a Mirror from anywhere.
    """
    try:
        document, _ = read_yaml(files.get(LOOM_FILE, b"").decode("utf-8"), LOOM_FILE)
    except UnicodeDecodeError:
        return None
    graph = None if document is None else read_loom_file(document)[0]
    if document is None or graph is None or errors_in(check_graph(graph, document)):
        return None
    return graph
