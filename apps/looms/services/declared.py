"""The graph that a Release declares, for whoever only looks: none of the Loom's code is imported or run."""

from __future__ import annotations

from collections.abc import Mapping

from apps.looms.checking.graph_rules import check_graph
from apps.looms.checking.loom_file import read_loom_file
from apps.looms.checking.yaml_tree import Document, read_yaml
from apps.looms.diagnostics import errors_in
from apps.looms.domain.graph import LoomGraph
from apps.looms.domain.names import LOOM_FILE

#: Of a ``loom.yaml`` that is only looked at: more takes too long to read, and no Loom needs it.
_MOST_BYTES = 512 * 1024


def declared_name(files: Mapping[str, bytes]) -> str | None:
    """The name that the package's ``loom.yaml`` gives its Loom; ``None`` when it cannot be read."""
    document = _document(files)
    name = document.value.get("loom") if document is not None and isinstance(document.value, dict) else None
    return name if isinstance(name, str) else None


def declared_graph(files: Mapping[str, bytes]) -> LoomGraph | None:
    """As the package's ``loom.yaml`` has it; ``None`` when that cannot be read or does not hang together.

    A Release may have come in a Mirror from anywhere.
    """
    document = _document(files)
    graph = None if document is None else read_loom_file(document)[0]
    if document is None or graph is None or errors_in(check_graph(graph, document)):
        return None
    return graph


def _document(files: Mapping[str, bytes]) -> Document | None:
    content = files.get(LOOM_FILE, b"")
    if len(content) > _MOST_BYTES:
        return None
    try:
        return read_yaml(content.decode("utf-8"), LOOM_FILE)[0]
    except UnicodeDecodeError:
        return None
