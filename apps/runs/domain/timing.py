"""What a Run was doing when: its attempts and turns as spans of time."""

from __future__ import annotations

import datetime as dt
import enum
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from apps.runs.domain.facts import Position
from apps.runs.domain.statuses import AttemptStatus, EventType, RunStatus


class SpanKind(enum.StrEnum):
    """What passed the time."""

    #: Something was due and no worker had it yet; the backoff of a retry counts too.
    QUEUED = "queued"
    #: A worker ran Code, or an agent that had claimed its Step was at it.
    RUNNING = "running"
    #: The Step had asked to go on at a later time.
    SLEEPING = "sleeping"
    #: Somebody was asked.
    WAITING_PERSON = "waiting-person"
    #: No agent had claimed the Step yet.
    WAITING_AGENT = "waiting-agent"
    #: The Run rested until somebody would resume it.
    PAUSED = "paused"


@dataclass(frozen=True, slots=True)
class TimedAttempt:
    """One ended attempt; times are the clocks of those who did it and may disagree."""

    step_seq: int
    position: Position
    initializes: bool
    attempt: int
    status: AttemptStatus
    result: str
    queued_at: dt.datetime | None
    started_at: dt.datetime | None
    ended_at: dt.datetime


@dataclass(frozen=True, slots=True)
class Turn:
    """An event that begins or ends a wait."""

    type: EventType
    at: dt.datetime
    data: Mapping[str, Any]


#: The events that :func:`spans_of` looks at.
TURNS = (
    EventType.STEP_WAITED,
    EventType.ACTION_ANSWERED,
    EventType.AGENT_CALL_OPENED,
    EventType.AGENT_CALL_CLAIMED,
    EventType.AGENT_CALL_CLOSED,
    EventType.RUN_PAUSED,
    EventType.RUN_RESUMED,
    EventType.RUN_COMPLETED,
    EventType.RUN_FAILED,
    EventType.RUN_CANCELLED,
)


@dataclass(frozen=True, slots=True)
class Standing:
    """Where the Run is now, and since when."""

    status: RunStatus
    position: Position
    attempt: int
    queued_at: dt.datetime | None
    started_at: dt.datetime | None


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of time; ``position`` is ``None`` for what the Run as a whole did.

    ``end`` is never before ``begin``.  ``is_open``: it goes on, and ends in the picture only because
    the picture was made then.  ``status`` and ``result`` are those of an ended attempt.
    """

    kind: SpanKind
    position: Position | None
    begin: dt.datetime
    end: dt.datetime
    is_open: bool = False
    attempt: int | None = None
    status: AttemptStatus | None = None
    result: str = ""
    initializes: bool = False


@dataclass(frozen=True, slots=True)
class Timeline:
    """A Run's spans in order of their beginning.

    ``attempts`` of ``attempts_in_all`` ended attempts are in it: the latest.
    """

    spans: tuple[Span, ...]
    attempts: int
    attempts_in_all: int
    status: RunStatus


def spans_of(
    attempts: Sequence[TimedAttempt], turns: Sequence[Turn], standing: Standing, *, now: dt.datetime
) -> list[Span]:
    """Every span, in order of beginning; ``turns`` are in the order in which they happened."""
    waits = list(_waits(turns, now=now))
    held_up = {(span.position, span.begin): span.end for span in waits if span.kind is SpanKind.SLEEPING}
    called = {span.position: span.begin for span in waits if span.kind is SpanKind.WAITING_AGENT}
    spans = [*waits]
    for attempt in attempts:
        spans.extend(_attempted(attempt, held_up, called))
    if not any(span.is_open and span.kind is SpanKind.SLEEPING for span in waits):
        spans.extend(_standing(standing, held_up, now=now))
    return sorted(spans, key=lambda span: (span.begin, span.end))


_HeldUp = Mapping[tuple[Position | None, dt.datetime], dt.datetime]


def _attempted(
    attempt: TimedAttempt, held_up: _HeldUp, called: Mapping[Position | None, dt.datetime]
) -> Iterator[Span]:
    """Queued, then run.  Clocks may differ: nothing ends before it begins."""
    begun = attempt.started_at or attempt.ended_at
    where = attempt.position
    if attempt.queued_at is not None:
        queued = min(held_up.get((where, attempt.queued_at), attempt.queued_at), begun)
        left = min(called.get(where, begun), begun)
        if left > queued:
            yield Span(SpanKind.QUEUED, where, queued, left, attempt=attempt.attempt)
    yield Span(
        SpanKind.RUNNING,
        where,
        begun,
        max(begun, attempt.ended_at),
        attempt=attempt.attempt,
        status=attempt.status,
        result=attempt.result,
        initializes=attempt.initializes,
    )


def _standing(standing: Standing, held_up: _HeldUp, *, now: dt.datetime) -> Iterator[Span]:
    """What is due or running now."""
    where, queued = standing.position, standing.queued_at
    if standing.status is RunStatus.QUEUED and queued is not None:
        begin = held_up.get((where, queued), queued)
        yield Span(SpanKind.QUEUED, where, begin, max(begin, now), is_open=True, attempt=standing.attempt)
    if standing.status is RunStatus.RUNNING and standing.started_at is not None:
        begun = standing.started_at
        if queued is not None and (begin := held_up.get((where, queued), queued)) < begun:
            yield Span(SpanKind.QUEUED, where, begin, begun, attempt=standing.attempt)
        yield Span(SpanKind.RUNNING, where, begun, max(begun, now), is_open=True, attempt=standing.attempt)


def _position(data: Mapping[str, Any]) -> Position:
    return Position(data["stage"], data["step"], data["visit"])


def _waits(turns: Sequence[Turn], *, now: dt.datetime) -> Iterator[Span]:
    """Sleeps, questions, calls that wait for an agent, and pauses."""
    going_on: dict[str, Span] = {}

    def end(key: str, at: dt.datetime) -> Iterator[Span]:
        span = going_on.pop(key, None)
        # What an agent did once it had claimed the call is told by its attempt.
        if span is not None and span.kind is not SpanKind.RUNNING:
            yield _between(span, span.begin, at)

    for turn in turns:
        at, data = turn.at, turn.data
        for key, until in _slept(going_on, at):
            yield from end(key, until)
        match turn.type:
            case EventType.STEP_WAITED if "until" in data:
                until = max(at, dt.datetime.fromisoformat(data["until"]))
                going_on["sleep"] = Span(SpanKind.SLEEPING, _position(data), at, until)
            case EventType.STEP_WAITED:
                going_on[data["actionId"]] = Span(SpanKind.WAITING_PERSON, _position(data), at, at)
            case EventType.ACTION_ANSWERED:
                yield from end(data["actionId"], at)
            case EventType.AGENT_CALL_OPENED:
                going_on[data["callId"]] = Span(SpanKind.WAITING_AGENT, _position(data), at, at)
            case EventType.AGENT_CALL_CLAIMED:
                call = data["callId"]
                position = going_on[call].position if call in going_on else None
                yield from end(call, at)
                if position is not None:
                    going_on[call] = Span(SpanKind.RUNNING, position, at, at, attempt=1)
            case EventType.AGENT_CALL_CLOSED:
                yield from end(data["callId"], at)
            case EventType.RUN_PAUSED:
                going_on["pause"] = Span(SpanKind.PAUSED, None, at, at)
            case EventType.RUN_RESUMED:
                yield from end("pause", at)
            case EventType.RUN_COMPLETED | EventType.RUN_FAILED | EventType.RUN_CANCELLED:
                for key in list(going_on):
                    yield from end(key, at)
    for key, until in _slept(going_on, now):
        yield from end(key, until)
    for span in going_on.values():
        yield _between(span, span.begin, now, is_open=True)


def _slept(going_on: Mapping[str, Span], at: dt.datetime) -> list[tuple[str, dt.datetime]]:
    """A sleep that is over ``at`` a moment; its end stands in the span."""
    sleep = going_on.get("sleep")
    return [("sleep", sleep.end)] if sleep is not None and sleep.end <= at else []


def _between(span: Span, begin: dt.datetime, end: dt.datetime, *, is_open: bool = False) -> Span:
    return Span(span.kind, span.position, begin, max(begin, end), is_open=is_open, attempt=span.attempt)
