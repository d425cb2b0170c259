"""What of a large Loom is drawn: the Stage in focus in full, others as one box each, the nearest first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from apps.console.pictures.edges import outcomes_of, stage_links
from apps.looms.domain.graph import LoomGraph

#: More boxes than this, and nobody finds anything.
MOST_STEPS = 60
MOST_STAGES = 60


@dataclass(frozen=True, slots=True)
class Folding:
    """``stages`` are drawn, in the Loom's order; ``unfolded`` has the Steps drawn of those that are no single box.

    ``drawn`` of ``steps`` Steps have a box of their own.
    """

    stages: tuple[str, ...]
    unfolded: Mapping[str, tuple[str, ...]]
    focus: tuple[str, str]
    drawn: int
    steps: int

    @property
    def is_partial(self) -> bool:
        return self.drawn < self.steps


def fold(graph: LoomGraph, focus: tuple[str, str]) -> Folding:
    """Everything up to :data:`MOST_STEPS` Steps in :data:`MOST_STAGES` Stages; else what lies nearest to ``focus``."""
    steps = sum(len(stage.steps) for stage in graph.stages.values())
    if steps <= MOST_STEPS and len(graph.stages) <= MOST_STAGES:
        unfolded = {name: tuple(stage.steps) for name, stage in graph.stages.items()}
        return Folding(tuple(graph.stages), unfolded, focus, steps, steps)
    near = _nearest(graph.stages, stage_links(graph), focus[0], MOST_STAGES)
    inside = graph.stages[focus[0]].steps
    links = [(step, way.step) for step in inside for way in outcomes_of(graph, focus[0], step) if way.is_inside]
    kept = _nearest(inside, links, focus[1], MOST_STEPS)
    return Folding(near, {focus[0]: kept}, focus, len(kept), steps)


def _nearest(names: Iterable[str], links: Iterable[tuple[str, str]], start: str, most: int) -> tuple[str, ...]:
    """At most ``most`` of ``names``: breadth first along links of either direction, then in order."""
    order = list(names)
    beside: dict[str, list[str]] = {name: [] for name in order}
    for a, b in links:
        if a in beside and b in beside:
            beside[a].append(b)
            beside[b].append(a)
    met = {start: None}
    queue = [start]
    for name in queue:
        for other in beside[name]:
            if other not in met:
                met[other] = None
                queue.append(other)
    kept = set([*met, *(name for name in order if name not in met)][:most])
    return tuple(name for name in order if name in kept)
