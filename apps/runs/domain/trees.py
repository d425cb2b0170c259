"""Putting Runs of one trace in the order of their tree."""

from __future__ import annotations

from collections.abc import Iterator, Mapping


def in_tree_order(parents: Mapping[str, str | None]) -> Iterator[tuple[str, str | None, int]]:
    """(Run, its parent, its depth), each Run before its children, siblings in the order of ``parents``.

    A parent that is not among the Runs makes its child a root.  ``parents`` names each Run after its own
    parent, so it holds no circle; however deep it goes, nothing recurses.
    """
    children: dict[str | None, list[str]] = {}
    for run, parent in parents.items():
        children.setdefault(parent if parent in parents else None, []).append(run)
    stack: list[tuple[str, str | None, int]] = [(run, None, 0) for run in reversed(children.get(None, []))]
    while stack:
        run, parent, depth = stack.pop()
        yield run, parent, depth
        stack += [(child, run, depth + 1) for child in reversed(children.get(run, []))]
