"""Truth tables: what a Run was doing when, from its attempts, its events and where it stands."""

from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.runs.domain.facts import Position
from apps.runs.domain.statuses import AttemptStatus, EventType, RunStatus
from apps.runs.domain.timing import Span, SpanKind, Standing, TimedAttempt, Turn, spans_of

BEGIN = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
HERE = Position("write", "draft", 1)
WHERE = {"stage": "write", "step": "draft", "visit": 1}
DONE = Standing(RunStatus.COMPLETED, HERE, 1, None, None)


def at(seconds: float) -> dt.datetime:
    return BEGIN + dt.timedelta(seconds=seconds)


def attempt(queued: float | None, started: float | None, ended: float, **more: object) -> TimedAttempt:
    values: dict[str, object] = {
        "step_seq": 0, "position": HERE, "initializes": False, "attempt": 1, "status": AttemptStatus.COMPLETED,
        "result": "done", "queued_at": None if queued is None else at(queued),
        "started_at": None if started is None else at(started), "ended_at": at(ended), **more,
    }  # fmt: skip
    return TimedAttempt(**values)  # type: ignore[arg-type]


def told(spans: list[Span]) -> list[tuple[str, float, float]]:
    """Kind, begin and end in seconds; a ``+`` after what goes on."""
    return [
        (
            span.kind.value + ("+" if span.is_open else ""),
            (span.begin - BEGIN).total_seconds(),
            (span.end - BEGIN).total_seconds(),
        )
        for span in spans
    ]


@pytest.mark.parametrize(
    ("queued", "started", "ended", "expected"),
    [
        (0, 1, 3, [("queued", 0, 1), ("running", 1, 3)]),
        (0, 0, 3, [("running", 0, 3)]),
        (None, 1, 3, [("running", 1, 3)]),
        # Never begun.
        (0, None, 3, [("queued", 0, 3), ("running", 3, 3)]),
        # Of no length.
        (1, 1, 1, [("running", 1, 1)]),
        # Crooked clocks: started before it was queued, ended before it started.
        (5, 1, 3, [("running", 1, 3)]),
        (0, 4, 2, [("queued", 0, 4), ("running", 4, 4)]),
    ],
)
def test_an_attempt_is_queued_then_runs(
    queued: float | None, started: float | None, ended: float, expected: list[tuple[str, float, float]]
) -> None:
    assert told(spans_of([attempt(queued, started, ended)], [], DONE, now=at(9))) == expected


@pytest.mark.parametrize(
    ("standing", "expected"),
    [
        (Standing(RunStatus.QUEUED, HERE, 1, at(2), None), [("queued+", 2, 9)]),
        (Standing(RunStatus.QUEUED, HERE, 1, at(20), None), [("queued+", 20, 20)]),
        (Standing(RunStatus.RUNNING, HERE, 1, at(2), at(3)), [("queued", 2, 3), ("running+", 3, 9)]),
        (Standing(RunStatus.RUNNING, HERE, 1, at(2), at(30)), [("queued", 2, 30), ("running+", 30, 30)]),
        (Standing(RunStatus.RUNNING, HERE, 1, None, at(3)), [("running+", 3, 9)]),
        (Standing(RunStatus.PAUSED, HERE, 1, at(2), None), []),
        (DONE, []),
    ],
)
def test_where_a_run_stands_goes_on_until_now(standing: Standing, expected: list[tuple[str, float, float]]) -> None:
    assert told(spans_of([], [], standing, now=at(9))) == expected


ASKED = Turn(EventType.STEP_WAITED, at(1), {**WHERE, "actionId": "q"})
ANSWERED = Turn(EventType.ACTION_ANSWERED, at(4), {"actionId": "q"})
SLEPT = Turn(EventType.STEP_WAITED, at(1), {**WHERE, "until": at(5).isoformat()})
OPENED = Turn(EventType.AGENT_CALL_OPENED, at(1), {**WHERE, "callId": "c"})
CLAIMED = Turn(EventType.AGENT_CALL_CLAIMED, at(3), {"callId": "c"})
CLOSED = Turn(EventType.AGENT_CALL_CLOSED, at(6), {"callId": "c"})
PAUSED = Turn(EventType.RUN_PAUSED, at(2), {})
RESUMED = Turn(EventType.RUN_RESUMED, at(5), {})
CANCELLED = Turn(EventType.RUN_CANCELLED, at(3), {})


@pytest.mark.parametrize(
    ("turns", "expected"),
    [
        ([ASKED, ANSWERED], [("waiting-person", 1, 4)]),
        ([ASKED], [("waiting-person+", 1, 9)]),
        ([ASKED, CANCELLED], [("waiting-person", 1, 3)]),
        ([SLEPT], [("sleeping", 1, 5)]),
        ([SLEPT, CANCELLED], [("sleeping", 1, 3)]),
        ([OPENED], [("waiting-agent+", 1, 9)]),
        ([OPENED, CLAIMED], [("waiting-agent", 1, 3), ("running+", 3, 9)]),
        # What the agent did is told by its attempt.
        ([OPENED, CLAIMED, CLOSED], [("waiting-agent", 1, 3)]),
        ([OPENED, CLOSED], [("waiting-agent", 1, 6)]),
        ([PAUSED, RESUMED], [("paused", 2, 5)]),
        ([PAUSED], [("paused+", 2, 9)]),
        # The beginning is not among the events that were read.
        ([ANSWERED], []),
        ([CLAIMED], []),
        ([RESUMED], []),
    ],
)
def test_waits_run_from_their_event_to_the_one_that_ends_them(
    turns: list[Turn], expected: list[tuple[str, float, float]]
) -> None:
    assert told(spans_of([], turns, DONE, now=at(9))) == expected


def test_a_sleep_that_is_not_over_goes_on_and_nothing_is_queued_meanwhile() -> None:
    standing = Standing(RunStatus.QUEUED, HERE, 1, at(1), None)
    assert told(spans_of([], [SLEPT], standing, now=at(3))) == [("sleeping+", 1, 3)]
    assert told(spans_of([], [SLEPT], standing, now=at(7))) == [("sleeping", 1, 5), ("queued+", 5, 7)]


def test_time_asleep_is_not_time_in_the_queue() -> None:
    spans = spans_of([attempt(1, 6, 7)], [SLEPT], DONE, now=at(9))
    assert told(spans) == [("sleeping", 1, 5), ("queued", 5, 6), ("running", 6, 7)]


def test_an_agents_step_is_queued_until_its_call_is_open_and_runs_once_it_is_claimed() -> None:
    spans = spans_of([attempt(0, 3, 6)], [OPENED, CLAIMED, CLOSED], DONE, now=at(9))
    assert told(spans) == [("queued", 0, 1), ("waiting-agent", 1, 3), ("running", 3, 6)]


times = st.integers(-100, 100)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(st.none() | times, st.none() | times, times), max_size=6),
    st.lists(st.tuples(st.sampled_from([ASKED, ANSWERED, SLEPT, OPENED, CLAIMED, CLOSED, PAUSED, RESUMED]), times)),
    st.sampled_from(list(RunStatus)),
    st.none() | times,
    st.none() | times,
)
def test_whatever_the_clocks_say_no_span_ends_before_it_begins(
    attempts: list[tuple[int | None, int | None, int]],
    turns: list[tuple[Turn, int]],
    status: RunStatus,
    queued: int | None,
    started: int | None,
) -> None:
    spans = spans_of(
        [attempt(*each) for each in attempts],
        [Turn(turn.type, at(seconds), turn.data) for turn, seconds in turns],
        Standing(status, HERE, 1, None if queued is None else at(queued), None if started is None else at(started)),
        now=at(0),
    )
    assert all(span.begin <= span.end for span in spans)
    assert [span.begin for span in spans] == sorted(span.begin for span in spans)
    assert sum(span.kind is SpanKind.RUNNING and not span.is_open for span in spans) == len(attempts)
