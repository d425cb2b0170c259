"""The marks of a timeline, each known by its shape."""

from __future__ import annotations

from collections.abc import Iterator

from apps.console.pictures import svg
from apps.console.pictures.svg import Svg, counted, number
from apps.runs.domain.statuses import AttemptStatus
from apps.runs.domain.timing import SpanKind

#: The narrowest mark that is seen.
BAR = 2.5
_MIDDLE, _HEIGHT = 11.0, 14.0
_TOP = _MIDDLE - _HEIGHT / 2

NAMES = {
    SpanKind.QUEUED: "queued",
    SpanKind.RUNNING: "running",
    SpanKind.SLEEPING: "sleeping",
    SpanKind.WAITING_PERSON: "waiting for a person",
    SpanKind.WAITING_AGENT: "waiting for an agent",
    SpanKind.PAUSED: "paused",
}

#: What became of an attempt: the sign beside its bar, and the words.
SIGNS = {
    AttemptStatus.COMPLETED: ("", "completed"),
    AttemptStatus.WAITED: ("", "asked or slept"),
    AttemptStatus.FAILED: ("✗", "failed"),
    AttemptStatus.INDETERMINATE: ("?", "cut off, effects unknown"),
    AttemptStatus.CANCELLED: ("⊘", "cancelled"),
}


_LEGEND: tuple[tuple[SpanKind, AttemptStatus | None, str], ...] = (
    (SpanKind.QUEUED, None, "queued"),
    (SpanKind.RUNNING, None, "running"),
    (SpanKind.RUNNING, AttemptStatus.COMPLETED, "ended"),
    (SpanKind.RUNNING, AttemptStatus.FAILED, "failed"),
    (SpanKind.RUNNING, AttemptStatus.INDETERMINATE, "cut off"),
    (SpanKind.SLEEPING, None, "sleeping"),
    (SpanKind.WAITING_PERSON, None, "waits for a person"),
    (SpanKind.WAITING_AGENT, None, "waits for an agent"),
    (SpanKind.PAUSED, None, "paused"),
)


def outcome_words(status: AttemptStatus, result: str) -> str:
    """``failed: STEP_FAILED``, ``completed: built``."""
    words = SIGNS[status][1]
    return f"{words}: {result}" if result else words


def draw_bar(
    kind: SpanKind,
    x: float,
    width: float,
    *,
    title: str,
    status: AttemptStatus | None = None,
    is_open: bool = False,
) -> Svg:
    """One stretch of time in a lane; what goes on ends in an arrow."""
    parts = list(_shape(kind, x, width))
    if is_open:
        parts.append(svg.path([f"M{number(x + width)} {number(_TOP)}", "l4 7 l-4 7"], "open"))
    css = f"span {kind.value}" + (f" {status.value}" if status else "")
    return svg.element("g", svg.element("title", svg.text(title)), *parts, css=css)


def draw_sign(status: AttemptStatus, x: float, width: float) -> Svg | None:
    """The sign of an attempt that came to no good, behind its bar; drawn after the bars, so that none hides it."""
    sign = SIGNS[status][0]
    return svg.label(x + width + 2, _MIDDLE + 4.5, sign, "sign") if sign else None


def _shape(kind: SpanKind, x: float, width: float) -> Iterator[Svg]:
    bar = {"x": x, "width": float(width)}
    match kind:
        case SpanKind.QUEUED:
            yield svg.element("rect", **bar, y=_MIDDLE - 1.5, height=3.0)
        case SpanKind.RUNNING:
            yield svg.element("rect", **bar, y=_TOP, height=_HEIGHT, rx=2.0)
        case SpanKind.SLEEPING:
            yield svg.path([f"M{number(x)} {number(_MIDDLE)}", f"h{number(width)}"], "dots")
        case SpanKind.WAITING_PERSON | SpanKind.WAITING_AGENT:
            yield svg.element("rect", **bar, y=_TOP + 1, height=_HEIGHT - 2, rx=2.0)
            if width >= 14:
                yield _person(x + width / 2) if kind is SpanKind.WAITING_PERSON else _diamond(x + width / 2)
        case SpanKind.PAUSED:
            yield svg.element("rect", **bar, y=_MIDDLE - 5, height=3.0)
            yield svg.element("rect", **bar, y=_MIDDLE + 2, height=3.0)


def _person(x: float) -> Svg:
    head = svg.element("circle", cx=x, cy=_MIDDLE - 2.5, r=2.0)
    return svg.element(
        "g", head, svg.path([f"M{number(x - 3.5)} {number(_MIDDLE + 4)}", "a3.5 3.5 0 0 1 7 0 z"], ""), css="glyph"
    )


def _diamond(x: float) -> Svg:
    return svg.element("g", svg.path([f"M{number(x)} {number(_MIDDLE - 4)}", "l4 4 l-4 4 l-4 -4 z"], ""), css="glyph")


def draw_failures(x: float, count: int, where: str) -> Svg:
    """A sign that attempts failed somewhere in a slice."""
    title = svg.element("title", svg.text(f"{where}: {counted(count, 'failed attempt')} here"))
    return svg.element("g", title, svg.label(x, _MIDDLE + 4.5, "✗", "sign", anchor="middle"), css="failures")


def legend() -> list[Svg]:
    """Every mark with its name, in one row."""
    shown: list[Svg] = []
    x = 0.0
    for kind, status, name in _LEGEND:
        shown.append(draw_bar(kind, x, 22.0, title=name, status=status))
        sign = draw_sign(status, x, 22.0) if status else None
        gap = 40 if sign else 28
        shown += [*([sign] if sign else []), svg.label(x + gap, _MIDDLE + 4, name, "legend-name")]
        x += gap + svg.text_width(name) * 0.88 + 14
    return shown
