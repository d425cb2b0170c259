"""Where a Step's outcomes lead, those to the same place together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from apps.looms.domain.graph import LoomGraph
from apps.looms.domain.names import END


@dataclass(frozen=True, slots=True)
class Outcomes:
    """Outcomes with one target: a Step, of this Stage or another one's entry, or ``end`` for the Run's end."""

    names: tuple[str, ...]
    stage: str
    step: str
    is_inside: bool


def outcomes_of(graph: LoomGraph, stage: str, step: str) -> list[Outcomes]:
    """In the order of the file.  A Stage that follows itself begins anew: its entry is a target inside."""
    found: dict[tuple[str, str, bool], list[str]] = {}
    for outcome, target in graph.stages[stage].steps[step].on.items():
        if target != END:
            found.setdefault((stage, target, True), []).append(outcome)
            continue
        following = graph.stages[stage].on[outcome]
        if following == END:
            found.setdefault((END, END, False), []).append(outcome)
        else:
            entry = graph.stages[following].entry
            found.setdefault((following, entry, following == stage), []).append(outcome)
    return [Outcomes(tuple(names), *place) for place, names in found.items()]


def stage_links(graph: LoomGraph) -> Iterator[tuple[str, str]]:
    """(Stage, following Stage or ``end``), each pair once."""
    seen: set[tuple[str, str]] = set()
    for stage in graph.stages.values():
        for step in stage.steps:
            for way in outcomes_of(graph, stage.name, step):
                pair = (stage.name, way.stage)
                if not way.is_inside and pair not in seen:
                    seen.add(pair)
                    yield pair
