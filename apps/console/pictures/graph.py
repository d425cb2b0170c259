"""A Loom's graph, with what a Run did in it: Stages as frames, Steps inside, outcomes on the edges.

A Step's mark is told by a sign, by words and by the box's line, not by colour alone.  Large Looms are
folded: Stages other than the one in focus become one box each, and what is still too much is cut to
what lies nearest.  The table has every Step.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote

from apps.console.pictures import svg
from apps.console.pictures.edges import Outcomes, outcomes_of
from apps.console.pictures.folding import Folding, fold
from apps.console.pictures.frames import (
    FINISH,
    FROM_ABOVE,
    FROM_BELOW,
    MORE,
    STAGE_CELLS,
    START,
    Frame,
    Outline,
    frame_of,
    inset_of,
    outline,
    port,
)
from apps.console.pictures.layout import Box, Layout, Link, Point, Route, lay_out
from apps.console.pictures.shapes import (
    FRAME_PAD,
    HEADER,
    PAD,
    TERMINAL_HEIGHT,
    TERMINAL_WIDTH,
    draw_box,
    draw_line,
    draw_loop,
    draw_terminal,
    make_box,
)
from apps.console.pictures.svg import Picture, Svg, Table, counted, shortened
from apps.looms.domain.graph import AgentStepSpec, LoomGraph
from apps.looms.domain.names import END
from apps.looms.pictures import Mark, Marks

_NOTHING: Marks = {}


def draw_graph(
    graph: LoomGraph, marks: Marks = _NOTHING, *, key: str = "graph", focus: str | None = None, unfold: str = ""
) -> Picture:
    """The picture and its table.

    ``focus`` is the Stage to unfold in a large Loom; else where the Run stands.  ``unfold`` is the
    address, up to a Stage's name, under which the picture has that Stage in focus.
    """
    folding = fold(graph, _focus(graph, marks, focus))
    title, description = f"Graph of Loom {graph.loom}", _description(graph, marks)
    layout, content = _drawn(graph, folding, marks, unfold)
    return Picture(
        svg=svg.document(
            key=key,
            css="graph",
            has_links=bool(unfold) and folding.is_partial,
            width=layout.width + 2 * PAD,
            height=layout.height + 2 * PAD,
            title=title,
            description=description,
            content=[svg.element("g", *content, transform=f"translate({PAD:g} {PAD:g})")],
        ),
        title=title,
        description=description,
        table=_table(graph, marks),
        said=_said(folding),
    )


def _focus(graph: LoomGraph, marks: Marks, asked: str | None) -> tuple[str, str]:
    if asked is not None and asked in graph.stages:
        return asked, graph.stages[asked].entry
    for kind in (Mark.FAILED, Mark.CURRENT):
        for (stage, step), mark in marks.items():
            if mark.kind is kind and stage in graph.stages and step in graph.stages[stage].steps:
                return stage, step
    return graph.entry, graph.stages[graph.entry].entry


def _drawn(graph: LoomGraph, folding: Folding, marks: Marks, unfold: str) -> tuple[Layout, list[Svg]]:
    """Frames at the bottom, lines over them, then boxes, then words: nothing hides what is read."""
    outer = outline(graph, folding)
    frames = {stage: frame_of(graph, stage, folding, outer, marks) for stage in folding.stages}
    left_out = make_box(
        "step more", [(f"… {len(graph.stages) - len(frames):,} more Stages", "name")], "Stages that are not drawn"
    )
    sizes = {START: (TERMINAL_WIDTH, TERMINAL_HEIGHT), FINISH: (TERMINAL_WIDTH, TERMINAL_HEIGHT)}
    sizes[MORE] = (left_out.width, left_out.height)
    sizes |= {name: (frame.width, frame.height) for name, frame in frames.items()}
    layout = lay_out(
        [Box(name, *sizes[name]) for name in outer.names], [_link(pair, outer, frames) for pair in outer.links]
    )
    under: list[Svg] = []
    lines = _lines(layout.routes, layout, {}, heads=(FINISH, MORE))
    boxes: list[Svg] = []
    words: list[Svg] = []
    for name, frame in frames.items():
        corner = Point(layout.boxes[name].x - frame.width / 2, layout.boxes[name].y)
        under.append(_border(frame, corner))
        heading = svg.label(corner.x + FRAME_PAD, corner.y + 18.0, shortened(name, STAGE_CELLS), "stage-name")
        folded = unfold and name not in folding.unfolded
        words.append(svg.element("a", heading, href=f"{unfold}{quote(name)}") if folded else heading)
        for part, found in zip((lines, boxes, words), _inside(frame, corner), strict=True):
            part.extend(found)
    for key in (START, FINISH):
        if key in layout.boxes:
            boxes.append(draw_terminal(key.strip("()"), layout.boxes[key]))
    if MORE in layout.boxes:
        boxes.append(draw_box(left_out, layout.boxes[MORE]))
    return layout, [*under, *lines, *boxes, *words]


def _link(pair: tuple[str, str], outer: Outline, frames: Mapping[str, Frame]) -> Link:
    source, target = pair
    way_in = FROM_BELOW if pair in outer.back else FROM_ABOVE
    return Link(
        f"{source} {target}",
        source,
        target,
        source_x=frames[source].ports[port(target)] if source in frames else None,
        target_x=frames[target].ports[way_in] if target in frames else None,
    )


def _border(frame: Frame, corner: Point) -> Svg:
    rect = svg.element("rect", x=corner.x, y=corner.y, width=float(frame.width), height=float(frame.height), rx=6.0)
    return svg.element("g", svg.element("title", svg.text(f"Stage {frame.name}")), rect, css="stage")


def _inside(frame: Frame, corner: Point) -> tuple[list[Svg], list[Svg], list[Svg]]:
    """Lines, boxes and words of a frame."""
    dx, dy = corner.x + inset_of(frame), corner.y + HEADER
    layout = frame.layout
    titles = {key: title for key, (_, title) in frame.outcomes.items()}
    heads = tuple(frame.boxes)
    lines = _lines(layout.routes, layout, titles, heads=heads, dx=dx, dy=dy)
    # From the frame's own border to where its layout begins and ends.
    for key in frame.ports:
        x, y = layout.boxes[key].x + dx, layout.boxes[key].y + dy
        edge = corner.y if y < corner.y + frame.height / 2 else corner.y + frame.height
        lines.append(draw_line([Point(x, min(y, edge)), Point(x, max(y, edge))], "", is_back=False, has_head=False))
    boxes, words = [], []
    for key, box in frame.boxes.items():
        middle = Point(layout.boxes[key].x + dx, layout.boxes[key].y + dy)
        boxes.append(draw_box(box, middle))
        if box.loop:
            line, label = draw_loop(box, middle)
            lines.append(line)
            words.append(label)
    for key, (outcome, _) in frame.outcomes.items():
        at = layout.routes[key].label
        words.append(svg.label(at.x + dx, at.y + dy + 4.0, outcome, "outcome", anchor="middle"))
    return lines, boxes, words


def _lines(
    routes: Mapping[str, Route],
    layout: Layout,
    titles: Mapping[str, str],
    *,
    heads: tuple[str, ...],
    dx: float = 0.0,
    dy: float = 0.0,
) -> list[Svg]:
    """Every link, then the trunks they share; the last piece has the head where the target is one of ``heads``."""

    def moved(points: tuple[Point, ...]) -> list[Point]:
        return [Point(point.x + dx, point.y + dy) for point in points]

    drawn = []
    for key, route in routes.items():
        ends = route.trunk is None and key.split(" ", 1)[1] in heads
        drawn.append(draw_line(moved(route.points), titles.get(key, ""), is_back=route.is_back, has_head=ends))
    for trunk in layout.trunks:
        drawn.append(
            draw_line(moved(trunk.points), "", is_back=trunk.is_back, has_head=trunk.target in heads, css="edge trunk")
        )
    return drawn


def _steps(graph: LoomGraph) -> int:
    return sum(len(stage.steps) for stage in graph.stages.values())


def _description(graph: LoomGraph, marks: Marks) -> str:
    """The picture in a few sentences, for who cannot see it."""
    known = {place: mark for place, mark in marks.items() if place[0] in graph.stages}
    said = [
        f"{counted(len(graph.stages), 'Stage')} with {counted(_steps(graph), 'Step')}; "
        f"begins at {graph.entry}/{graph.stages[graph.entry].entry}."
    ]
    if known:
        said.append(f"The Run has visited {len(known):,} of {_steps(graph):,} Steps.")
    for (stage, step), mark in known.items():
        if mark.kind is not Mark.VISITED:
            said.append(f"At {stage}/{step}: {mark.words}.")
    return " ".join(said)


def _said(folding: Folding) -> str | None:
    if not folding.is_partial:
        return None
    return (
        f"{folding.drawn:,} of {folding.steps:,} Steps are drawn, those nearest to "
        f"{folding.focus[0]}/{folding.focus[1]}; the table has all of them."
    )


def _table(graph: LoomGraph, marks: Marks) -> Table:
    rows = []
    for stage in graph.stages.values():
        for step in stage.steps.values():
            mark = marks.get((stage.name, step.name))
            kind = f"agent {step.agent}" if isinstance(step, AgentStepSpec) else f"code {step.code}"
            ways = "; ".join(_way(way) for way in outcomes_of(graph, stage.name, step.name))
            rows.append((stage.name, step.name, kind, ways, mark.words if mark else ""))
    return Table(("Stage", "Step", "What it is", "Outcomes", "This Run" if marks else "Run"), tuple(rows))


def _way(way: Outcomes) -> str:
    target = "end of the Run" if way.stage == END else way.step if way.is_inside else f"{way.stage}/{way.step}"
    return f"{', '.join(way.names)} → {target}"
