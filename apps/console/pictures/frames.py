"""Stages as frames: the Steps of each placed between ports at its border, and the frames among each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from apps.console.pictures.edges import Outcomes, outcomes_of, stage_links
from apps.console.pictures.folding import Folding
from apps.console.pictures.layout import Box, Layout, Link, back_links, lay_out
from apps.console.pictures.shapes import (
    FRAME_PAD,
    HEADER,
    StepBox,
    make_box,
    step_box,
)
from apps.console.pictures.svg import LINE, counted, shortened, text_width
from apps.looms.domain.graph import LoomGraph
from apps.looms.domain.names import END
from apps.looms.pictures import Mark, Marks

#: Boxes that are neither Stages nor Steps; no name looks like these.
START, FINISH, MORE = "(start)", "(end)", "(more)"
#: Where lines come into a frame.
FROM_ABOVE, FROM_BELOW = "(from above)", "(from below)"
STAGE_CELLS = 40
_OUTCOME_CELLS = 30
_PORT = 6.0


@dataclass(frozen=True, slots=True)
class Outline:
    """The drawn Stages, what stands beside them, and the links between all of them in the order of reading."""

    names: tuple[str, ...]
    links: tuple[tuple[str, str], ...]
    back: frozenset[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Frame:
    """A Stage ready to be drawn.

    ``boxes`` are its Steps, or one for all; ``outcomes`` are, by link, a label's words and the whole
    of what it says; ``ports`` are, by what lies beyond, where lines cross the border, from its middle.
    """

    name: str
    layout: Layout
    boxes: Mapping[str, StepBox]
    outcomes: Mapping[str, tuple[str, str]]
    ports: Mapping[str, float]
    width: float
    height: float


def outline(graph: LoomGraph, folding: Folding) -> Outline:
    """Stages left out are one box, :data:`MORE`; what leads there is shown, what comes from there is not."""
    drawn = set(folding.stages)
    links = {(START, _drawn(graph.entry, drawn)): None}
    for a, b in stage_links(graph):
        if a in drawn:
            links[a, _drawn(b, drawn)] = None
    touched = {name for link in links for name in link}
    names = tuple(name for name in (START, *folding.stages, MORE, FINISH) if name in drawn or name in touched)
    keyed = [Link(f"{a} {b}", a, b) for a, b in links]
    back = back_links([Box(name, 1.0, 1.0) for name in names], keyed)
    return Outline(names, tuple(links), frozenset(link for link in links if f"{link[0]} {link[1]}" in back))


def _drawn(stage: str, drawn: set[str]) -> str:
    if stage == END:
        return FINISH
    return stage if stage in drawn else MORE


def frame_of(graph: LoomGraph, stage: str, folding: Folding, outer: Outline, marks: Marks) -> Frame:
    """The Stage's Steps placed, or one box for all of them when it is folded."""
    spec = graph.stages[stage]
    if stage in folding.unfolded:
        boxes, links, outcomes = _steps(graph, stage, folding, marks)
        entry = spec.entry if spec.entry in boxes else MORE
    else:
        boxes, outcomes, entry = {stage: _folded(graph, stage, marks)}, {}, stage
        links = [Link(f"{stage} {b}", stage, port(b)) for a, b in outer.links if a == stage]
    ports: dict[str, str] = {}
    for a, b in outer.links:
        if a == stage:
            ports[port(b)] = "first" if (a, b) in outer.back else "last"
        if b == stage:
            ports[FROM_BELOW if (a, b) in outer.back else FROM_ABOVE] = "last" if (a, b) in outer.back else "first"
    links += [Link(f"{way_in} {entry}", way_in, entry) for way_in in (FROM_ABOVE, FROM_BELOW) if way_in in ports]
    order = [entry, *(key for key in boxes if key != entry)]
    placed = lay_out(
        [
            *(Box(key, boxes[key].full_width, boxes[key].height, face=boxes[key].width) for key in order),
            *(Box(key, _PORT, 0.0, rank) for key, rank in ports.items()),
        ],
        links,
    )
    header = text_width(shortened(stage, STAGE_CELLS)) * 1.1
    width = max(placed.width, header) + 2 * FRAME_PAD
    inset = (width - placed.width) / 2
    return Frame(
        name=stage,
        layout=placed,
        boxes=boxes,
        outcomes=outcomes,
        ports={key: inset + placed.boxes[key].x - width / 2 for key in ports},
        width=width,
        height=placed.height + HEADER + FRAME_PAD,
    )


def port(beyond: str) -> str:
    """The port by which a frame is left; no Step is called so."""
    return f"(to {beyond})"


def inset_of(frame: Frame) -> float:
    """From the frame's left border to where its layout begins."""
    return (frame.width - frame.layout.width) / 2


_Contents = tuple[dict[str, StepBox], list[Link], dict[str, tuple[str, str]]]


def _steps(graph: LoomGraph, stage: str, folding: Folding, marks: Marks) -> _Contents:
    kept, drawn = folding.unfolded[stage], set(folding.stages)
    boxes: dict[str, StepBox] = {}
    ways: dict[tuple[str, str], list[Outcomes]] = {}
    for step in kept:
        loop = None
        for way in outcomes_of(graph, stage, step):
            if way.is_inside and way.step == step:
                loop = _said(stage, step, [way])
            elif way.is_inside:
                ways.setdefault((step, way.step if way.step in kept else MORE), []).append(way)
            else:
                ways.setdefault((step, port(_drawn(way.stage, drawn))), []).append(way)
        boxes[step] = step_box(graph.step(stage, step), marks.get((stage, step)), loop)
    left_out = len(graph.stages[stage].steps) - len(kept)
    if left_out:
        boxes[MORE] = make_box("step more", [(f"… {left_out:,} more", "name")], f"{left_out:,} more Steps of {stage}")
    outcomes = {f"{step} {target}": _said(stage, step, met) for (step, target), met in ways.items()}
    links = [
        Link(f"{step} {target}", step, target, text_width(outcomes[f"{step} {target}"][0]), LINE)
        for step, target in ways
    ]
    return boxes, links, outcomes


def _said(stage: str, step: str, ways: list[Outcomes]) -> tuple[str, str]:
    """The label of a line, and all that it stands for."""
    names = [", ".join(way.names) for way in ways]
    whole = "; ".join(f"{words} → {_target(way)}" for words, way in zip(names, ways, strict=True))
    return shortened(", ".join(names), _OUTCOME_CELLS), f"{stage}/{step}: {whole}"


def _target(way: Outcomes) -> str:
    if way.stage == END:
        return "end of the Run"
    return way.step if way.is_inside else f"Stage {way.stage}"


def _folded(graph: LoomGraph, stage: str, marks: Marks) -> StepBox:
    """One box for a Stage: how many Steps it has, and what a Run did in them, the worst first."""
    steps = graph.stages[stage].steps
    met = [mark for (where, step), mark in marks.items() if where == stage and step in steps]
    worst = next((mark for kind in (Mark.FAILED, Mark.CURRENT) for mark in met if mark.kind is kind), None)
    lines = [(counted(len(steps), "Step"), "name")]
    if met:
        lines.append((f"{len(met):,} of {len(steps):,} visited", "kind"))
    if worst:
        lines.append((worst.words, "mark"))
    css = worst.kind.value if worst else Mark.VISITED.value if met else "unvisited"
    return make_box(f"step folded {css}", lines, f"Stage {stage}: " + ", ".join(words for words, _ in lines))
