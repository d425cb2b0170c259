"""Spans in lanes: one lane a visit; or, when that is too much, one a Step with what took most of each slice of time."""

from __future__ import annotations

import datetime as dt
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from apps.runs.domain.facts import Position
from apps.runs.domain.statuses import AttemptStatus
from apps.runs.domain.timing import Span, SpanKind

MOST_LANES = 60
MOST_SPANS = 800
#: How many pieces an aggregated lane is cut into.
SLICES = 120
_BAD = frozenset({AttemptStatus.FAILED, AttemptStatus.INDETERMINATE})
_WHOLE_RUN = "Whole Run"


@dataclass(frozen=True, slots=True)
class Lane:
    """``name`` says whose time it is; ``spans`` are in order."""

    name: str
    spans: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Piece:
    """Slices ``first`` to ``last`` of an aggregated lane; ``failed`` attempts ended in them."""

    kind: SpanKind
    first: int
    last: int
    failed: int


@dataclass(frozen=True, slots=True)
class StepLane:
    """All visits of a Step together: how many, its attempts, and the time of each kind."""

    name: str
    pieces: tuple[Piece, ...]
    visits: int
    attempts: int
    failed: int
    took: dict[SpanKind, dt.timedelta]


def name_of(position: Position | None, *, with_visit: bool = True) -> str:
    if position is None:
        return _WHOLE_RUN
    name = f"{position.stage}/{position.step}"
    return f"{name} · visit {position.visit:,}" if with_visit and position.visit > 1 else name


def lanes_of(spans: Sequence[Span]) -> list[Lane]:
    """One lane for each visit of a Step, in order of beginning; one for what the Run did as a whole."""
    lanes: dict[Position | None, list[Span]] = defaultdict(list)
    for span in spans:
        lanes[span.position].append(span)
    return [Lane(name_of(position), tuple(found)) for position, found in lanes.items()]


def is_too_much(spans: Sequence[Span]) -> bool:
    return len(spans) > MOST_SPANS or len({span.position for span in spans}) > MOST_LANES


def step_lanes(spans: Sequence[Span], begin: dt.datetime, end: dt.datetime) -> list[StepLane]:
    """A lane for each Step; those that are one too many share the last one."""
    groups: dict[str, list[Span]] = defaultdict(list)
    for span in spans:
        groups[name_of(span.position, with_visit=False)].append(span)
    names = list(groups)
    if len(names) > MOST_LANES:
        rest = names[MOST_LANES - 1 :]
        together = [span for name in rest for span in groups.pop(name)]
        groups[f"{len(rest):,} more Steps"] = together
    return [_together(name, found, begin, end) for name, found in groups.items()]


def _together(name: str, spans: Sequence[Span], begin: dt.datetime, end: dt.datetime) -> StepLane:
    took: dict[SpanKind, dt.timedelta] = defaultdict(dt.timedelta)
    for span in spans:
        took[span.kind] += span.end - span.begin
    ended = [span for span in spans if span.status is not None]
    return StepLane(
        name=name,
        pieces=tuple(_pieces(spans, begin, end)),
        visits=len({span.position for span in spans}),
        attempts=len(ended),
        failed=sum(span.status in _BAD for span in ended),
        took=dict(took),
    )


def _pieces(spans: Iterable[Span], begin: dt.datetime, end: dt.datetime) -> list[Piece]:
    """Neighbouring slices of the same kind put together; a slice in which nothing was has no piece."""
    whole = (end - begin).total_seconds()
    scale = SLICES / whole if whole > 0 else 0.0
    weights: dict[int, Counter[SpanKind]] = defaultdict(Counter)
    failed: Counter[int] = Counter()
    for span in spans:
        first = (span.begin - begin).total_seconds() * scale
        last = (span.end - begin).total_seconds() * scale
        low, high = min(int(first), SLICES - 1), min(int(last), SLICES - 1)
        for index in range(low, high + 1):
            # However short, a span counts for something.
            weights[index][span.kind] += max(min(last, index + 1) - max(first, index), 1e-9)  # type: ignore[assignment]
        if span.status in _BAD:
            failed[high] += 1
    pieces: list[Piece] = []
    order = list(SpanKind)
    for index in sorted(weights):
        kind = max(weights[index], key=lambda kind: (weights[index][kind], -order.index(kind)))
        before = pieces[-1] if pieces else None
        if before and before.kind is kind and before.last == index - 1 and not failed[index] and not before.failed:
            pieces[-1] = Piece(kind, before.first, index, 0)
        else:
            pieces.append(Piece(kind, index, index, failed[index]))
    return pieces
