"""The shapes of a graph: a Step's box, a line with its head, a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from apps.console.pictures import svg
from apps.console.pictures.layout import Point
from apps.console.pictures.svg import LINE, Svg, number, shortened, text_width
from apps.looms.domain.graph import AgentStepSpec, StepSpec
from apps.looms.pictures import StepMark

PAD = 8.0
#: Inside a Stage's frame: around its Steps, and above them for its name.
FRAME_PAD = 12.0
HEADER = 18.0
TERMINAL_WIDTH, TERMINAL_HEIGHT = 64.0, 24.0
_NAME_CELLS = 26
_BOX_PAD = 10.0
_LOOP = 26.0


@dataclass(frozen=True, slots=True)
class StepBox:
    """A box with lines of text.  ``loop`` are the outcomes that lead back to the same Step, beside it."""

    css: str
    lines: tuple[tuple[str, str], ...]
    title: str
    width: float
    height: float
    is_round: bool = False
    loop: tuple[str, str] | None = None

    @property
    def full_width(self) -> float:
        """With the loop's room, on both sides so that the box stays in the middle."""
        return self.width + (2 * (_LOOP + text_width(self.loop[0]) + 4) if self.loop else 0.0)


def make_box(
    css: str,
    lines: Sequence[tuple[str, str]],
    title: str,
    *,
    is_round: bool = False,
    loop: tuple[str, str] | None = None,
) -> StepBox:
    """A box as large as its lines (words and class)."""
    width = max(64.0, *(text_width(words) * (1.08 if kind == "name" else 1.0) for words, kind in lines)) + 2 * _BOX_PAD
    return StepBox(css, tuple(lines), title, width, len(lines) * LINE + 10.0, is_round, loop)


def step_box(spec: StepSpec, mark: StepMark | None, loop: tuple[str, str] | None) -> StepBox:
    """A Step: its name, what carries it out, and what a Run did there.  Agents have round corners."""
    is_agent = isinstance(spec, AgentStepSpec)
    kind = f"agent {spec.agent}" if isinstance(spec, AgentStepSpec) else "code"
    lines = [(shortened(spec.name, _NAME_CELLS), "name"), (shortened(kind, _NAME_CELLS), "kind")]
    if mark:
        lines.append((shortened(mark.words, _NAME_CELLS), "mark"))
    said = f"{spec.name}, {kind}" + (f": {mark.words}" if mark else "")
    css = f"step {'agent' if is_agent else 'code'} {mark.kind.value if mark else 'unvisited'}"
    if mark and mark.note in ("waiting", "paused", "queued", "cancelled"):
        css += f" is-{mark.note}"
    return make_box(css, lines, said, is_round=is_agent, loop=loop)


def draw_box(box: StepBox, middle: Point) -> Svg:
    """``middle`` is the middle of the box's top."""
    left = middle.x - box.width / 2
    words = [
        svg.label(middle.x, middle.y + 4.0 + LINE * (index + 0.75), line, css, anchor="middle")
        for index, (line, css) in enumerate(box.lines)
    ]
    radius = box.height / 2 if box.is_round else 3.0
    frame = svg.element(
        "rect", x=left, y=middle.y, width=float(box.width), height=float(box.height), rx=min(radius, 16.0)
    )
    return svg.element("g", svg.element("title", svg.text(box.title)), frame, *words, css=box.css)


def draw_loop(box: StepBox, middle: Point) -> tuple[Svg, Svg]:
    """The line and the label of outcomes that lead to the Step again, at its right."""
    assert box.loop is not None
    words, title = box.loop
    right, top, bottom = middle.x + box.width / 2, middle.y + box.height * 0.25, middle.y + box.height * 0.75
    out = right + _LOOP
    parts = [
        f"M{number(right)} {number(bottom)}",
        f"C{number(out)} {number(bottom)} {number(out)} {number(top)} {number(right + 7)} {number(top)}",
    ]
    line = svg.element(
        "g",
        svg.element("title", svg.text(title)),
        svg.path(parts, "line"),
        svg.path(
            [f"M{number(right)} {number(top)}", "l7 -3.5", "v7", "z"],
            "head",
        ),
        css="edge back",
    )
    label = svg.label(out - 2, (top + bottom) / 2 + 4, words, "outcome")
    return line, label


def draw_line(points: Sequence[Point], title: str, *, is_back: bool, has_head: bool, css: str = "edge") -> Svg:
    """Straight down (or, ``is_back``, up) where that leads on, else a curve that leaves and arrives upright."""
    parts = [f"M{number(points[0].x)} {number(points[0].y)}"]
    last = len(points) - 1
    for index in range(1, len(points)):
        a, b = points[index - 1], points[index]
        end_y = b.y
        if index == last and has_head:
            end_y += 6.0 if is_back else -6.0
        if abs(a.x - b.x) > 0.05:
            middle = (a.y + end_y) / 2
            parts.append(
                f"C{number(a.x)} {number(middle)} {number(b.x)} {number(middle)} {number(b.x)} {number(end_y)}"
            )
        elif a.y != end_y:
            parts.append(f"L{number(b.x)} {number(end_y)}")
    drawn = [svg.path(parts, "line")]
    if has_head:
        tip = points[-1]
        drawn.append(
            svg.path([f"M{number(tip.x)} {number(tip.y)}", "l-3.5 7 h7 z" if is_back else "l-3.5 -7 h7 z"], "head")
        )
    named = [svg.element("title", svg.text(title))] if title else []
    return svg.element("g", *named, *drawn, css=f"{css} back" if is_back else css)


def draw_terminal(words: str, middle: Point) -> Svg:
    """Where a Run begins or ends."""
    return svg.element(
        "g",
        svg.element(
            "rect",
            x=middle.x - TERMINAL_WIDTH / 2,
            y=middle.y,
            width=TERMINAL_WIDTH,
            height=TERMINAL_HEIGHT,
            rx=TERMINAL_HEIGHT / 2,
        ),
        svg.label(middle.x, middle.y + 16.5, words, "name", anchor="middle"),
        css="terminal",
    )
