"""A Run's time: a lane for each visit of a Step, with a mark of its own for each way to pass the time.

The marks differ in shape, not in colour alone: queued is a thin line, running a full bar, sleeping a
dotted line, waiting for a person a hollow bar with a figure, for an agent a hollow bar with a diamond,
paused two strokes.  A Run of thousands of attempts is drawn by Step, and says so.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence

from apps.console.pictures import axis, svg
from apps.console.pictures.bars import BAR, NAMES, draw_bar, draw_failures, draw_sign, legend, outcome_words
from apps.console.pictures.lanes import SLICES, StepLane, is_too_much, lanes_of, name_of, step_lanes
from apps.console.pictures.svg import Picture, Svg, Table, counted, shortened
from apps.runs.domain.statuses import AttemptStatus
from apps.runs.domain.timing import Span, SpanKind, Timeline

_LABEL, _PLOT, _RIGHT = 236.0, 920.0, 24.0
_LANE = 22.0
_TOP = 26.0
_LEGEND = 30.0
_LABEL_CELLS = 32
_MOST_TICKS = 8
#: More rows than this are not read; the attempts have a page of their own.
MOST_ROWS = 200


def draw_timeline(timeline: Timeline, *, key: str = "timeline") -> Picture:
    """The picture and its table.  A Run of which nothing is known yet has an empty picture that says so."""
    spans = timeline.spans
    begin = min((span.begin for span in spans), default=dt.datetime.fromtimestamp(0, dt.UTC))
    end = max((span.end for span in spans), default=begin)
    title = "Timeline of the Run"
    if is_too_much(spans):
        steps = step_lanes(spans, begin, end)
        names = [f"{lane.name} {_counts(lane)}" for lane in steps]
        bars = [list(_step_bars(lane, end - begin)) for lane in steps]
        table = _step_table(steps)
    else:
        lanes = lanes_of(spans)
        names = [lane.name for lane in lanes]
        bars = [_bars(lane.spans, begin, end) for lane in lanes]
        table = _span_table(spans)
    description = _description(timeline, begin, end)
    height = _TOP + _LANE * max(len(names), 1) + _LEGEND + 8
    return Picture(
        svg=svg.document(
            key=key,
            css="timeline",
            width=_LABEL + _PLOT + _RIGHT,
            height=height,
            title=title,
            description=description,
            content=list(_content(names, bars, end - begin)),
        ),
        title=title,
        description=description,
        table=table,
        said=_said(timeline, is_too_much(spans), len(names)),
    )


def _content(names: Sequence[str], bars: Sequence[Sequence[Svg]], whole: dt.timedelta) -> Iterator[Svg]:
    bottom = _TOP + _LANE * max(len(names), 1)
    yield from _axis(whole, bottom)
    for index, (name, found) in enumerate(zip(names, bars, strict=True)):
        y = _TOP + _LANE * index
        stripe = svg.element("rect", x=0.0, y=y, width=_LABEL + _PLOT + _RIGHT, height=_LANE, css="stripe")
        words = svg.label(_LABEL - 10, y + 15, shortened(name, _LABEL_CELLS), "lane-name", anchor="end")
        full = svg.element("title", svg.text(name))
        yield svg.element(
            "g",
            full,
            *([stripe] if index % 2 else []),
            words,
            svg.element("g", *found, transform=f"translate({svg.number(_LABEL)} {svg.number(y)})"),
            css="lane",
        )
    if not names:
        yield svg.label(_LABEL, _TOP + 15, "Nothing has been timed yet.", "lane-name")
    yield svg.element("g", *legend(), transform=f"translate(8 {svg.number(bottom + 12)})", css="legend")


def _axis(whole: dt.timedelta, bottom: float) -> Iterator[Svg]:
    seconds = whole.total_seconds()
    for tick in axis.ticks(whole, most=_MOST_TICKS):
        x = _LABEL + (tick.total_seconds() / seconds * _PLOT if seconds > 0 else 0.0)
        line = svg.element("line", x1=x, x2=x, y1=_TOP - 4, y2=bottom)
        words = svg.label(x, _TOP - 10, axis.words(tick), "tick", anchor="start" if not tick else "middle")
        yield svg.element("g", line, words, css="axis")


def _bars(spans: Sequence[Span], begin: dt.datetime, end: dt.datetime) -> list[Svg]:
    """A lane's bars, then the signs over them."""
    whole = (end - begin).total_seconds()
    scale = _PLOT / whole if whole > 0 else 0.0
    bars, signs = [], []
    for span in spans:
        x = min((span.begin - begin).total_seconds() * scale, _PLOT - BAR)
        width = max((span.end - span.begin).total_seconds() * scale, BAR)
        title = _sentence(span)
        bars.append(draw_bar(span.kind, x, width, title=title, status=span.status, is_open=span.is_open))
        sign = draw_sign(span.status, x, width) if span.status else None
        if sign:
            signs.append(sign)
    return bars + signs


def _sentence(span: Span) -> str:
    parts = [f"{name_of(span.position)}: {_what(span)}", axis.words(span.end - span.begin)]
    if span.status is not None:
        parts.append(outcome_words(span.status, span.result))
    return f"{', '.join(parts)}; from {axis.clock_time(span.begin)}"


def _what(span: Span) -> str:
    words = "began the Stage" if span.initializes else NAMES[span.kind]
    if span.attempt is not None and span.attempt > 1:
        words += f" (attempt {span.attempt:,})"
    return f"{words}, going on" if span.is_open else words


def _step_bars(lane: StepLane, whole: dt.timedelta) -> Iterator[Svg]:
    cell = _PLOT / SLICES
    for piece in lane.pieces:
        width = (piece.last - piece.first + 1) * cell
        since = axis.words(whole * piece.first / SLICES)
        title = f"{lane.name}: mostly {NAMES[piece.kind]} from {since} on"
        ran = AttemptStatus.COMPLETED if piece.kind is SpanKind.RUNNING else None
        yield draw_bar(piece.kind, piece.first * cell, width, title=title, status=ran)
    for piece in lane.pieces:
        if piece.failed:
            yield draw_failures((piece.first + piece.last + 1) / 2 * cell, piece.failed, lane.name)


def _counts(lane: StepLane) -> str:
    failed = f", {lane.failed:,} ✗" if lane.failed else ""
    return f"{lane.visits:,}×{failed}"


def _said(timeline: Timeline, together: bool, lanes: int) -> str | None:
    parts = []
    if timeline.attempts < timeline.attempts_in_all:
        parts.append(f"The latest {timeline.attempts:,} of {timeline.attempts_in_all:,} attempts are in the picture.")
    if together:
        parts.append(
            f"{counted(timeline.attempts, 'attempt')} in {counted(lanes, 'lane')}, one for each Step; each 1/{SLICES} "
            "of the time shows what took most of it."
        )
    return " ".join(parts) or None


def _description(timeline: Timeline, begin: dt.datetime, end: dt.datetime) -> str:
    if not timeline.spans:
        return f"The Run is {timeline.status.value}; nothing has been timed yet."
    totals: dict[SpanKind, dt.timedelta] = {}
    for span in timeline.spans:
        totals[span.kind] = totals.get(span.kind, dt.timedelta()) + (span.end - span.begin)
    shares = ", ".join(f"{NAMES[kind]} {axis.words(totals[kind])}" for kind in SpanKind if kind in totals)
    return f"The Run is {timeline.status.value}. {axis.words(end - begin)} from {axis.clock_time(begin)} UTC: {shares}."


def _span_table(spans: Sequence[Span]) -> Table:
    shown = spans[-MOST_ROWS:]
    rows = tuple(
        (
            name_of(span.position),
            _what(span),
            axis.clock_time(span.begin),
            axis.words(span.end - span.begin),
            outcome_words(span.status, span.result) if span.status else "",
        )
        for span in shown
    )
    said = f"The latest {len(shown):,} of {len(spans):,} spans." if len(shown) < len(spans) else None
    return Table(("Step", "What", "Began (UTC)", "Took", "Ended as"), rows, said)


def _step_table(lanes: Sequence[StepLane]) -> Table:
    kinds = [kind for kind in SpanKind if any(kind in lane.took for lane in lanes)]
    rows = tuple(
        (
            lane.name,
            f"{lane.visits:,}",
            f"{lane.attempts:,}",
            f"{lane.failed:,}",
            *(axis.words(lane.took[kind]) if kind in lane.took else "" for kind in kinds),
        )
        for lane in lanes
    )
    return Table(("Step", "Visits", "Attempts", "Failed", *(NAMES[kind].capitalize() for kind in kinds)), rows)
