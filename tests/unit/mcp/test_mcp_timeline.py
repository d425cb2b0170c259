"""The picture of a Run in a terminal."""

from __future__ import annotations

import datetime as dt
import io
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from apps.core.clock import to_wire
from apps.mcp.terminal import duration
from apps.mcp.timeline import MOST_ROWS, QUEUED, RUNNING, timeline

BEGIN = dt.datetime(2026, 11, 30, 12, tzinfo=dt.UTC)


def attempt(queued: float | None, started: float | None, ended: float, **more: Any) -> dict[str, Any]:
    """An attempt with its times in seconds after the beginning."""
    at = {"queuedAt": queued, "startedAt": started, "endedAt": ended}
    times = {name: to_wire(BEGIN + dt.timedelta(seconds=s)) for name, s in at.items() if s is not None}
    about = {"stepSeq": 1, "stage": "work", "step": "act", "visit": 1, "kind": "step", "segment": 1, "attempt": 1}
    return {**about, "status": "completed", **times, **more}


def drawn(*attempts: dict[str, Any], cells: int = 10) -> list[str]:
    file = io.StringIO()
    Console(file=file, width=200).print(timeline(attempts, cells=cells))
    return [line.rstrip() for line in file.getvalue().splitlines()]


def test_bars_share_one_scale_and_tell_queued_from_running() -> None:
    lines = drawn(attempt(0, 4, 8), attempt(8, 8, 10, step="next", outcome="done", stepSeq=2))
    assert "░░░░████  " in lines[1]
    assert "        ██" in lines[2]
    assert lines[1].split()[-4:] == ["4.0", "s", "✓", "completed"]
    assert lines[2].endswith("✓ completed done")


def test_what_is_not_the_first_try_is_said() -> None:
    failure = {"code": "STEP_FAILED", "message": "no [bold]luck[/]\x1b[2J"}
    lines = drawn(
        attempt(0, 0, 1, status="failed", error=failure),
        attempt(1, 1, 2, attempt=2, visit=3, kind="continuation", stepSeq=2),
        attempt(2, 2, 3, kind="initialize", stepSeq=3),
    )
    assert "✗ failed STEP_FAILED: no [bold]luck[/]␛[2J" in lines[1]
    assert "work/act (visit 3, after the wait, attempt 2)" in lines[2]
    assert lines[3].startswith("work/(begins)")


def test_a_run_without_attempts_is_said_to_have_none() -> None:
    assert drawn() == ["No attempt has ended yet."]


@pytest.mark.rule("FR-I1", "FR-I3")
def test_what_does_not_fit_is_counted() -> None:
    lines = drawn(*(attempt(n, n, n + 1, stepSeq=n) for n in range(MOST_ROWS + 7)))
    assert "… and 7 more attempts" in lines


offsets = st.floats(min_value=0, max_value=1e6, allow_nan=False)


@settings(deadline=None)
@given(st.lists(st.tuples(st.none() | offsets, st.none() | offsets, offsets), min_size=1, max_size=20))
def test_every_attempt_shows_within_the_width_whatever_its_times(times: list[tuple[Any, Any, float]]) -> None:
    lines = drawn(*(attempt(queued, started, ended) for queued, started, ended in times), cells=20)
    for line in lines[1 : len(times) + 1]:
        bar = line[len("work/act") + 2 :][:20]
        assert RUNNING in bar
        assert set(bar) <= {" ", QUEUED, RUNNING}


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (-1, "0 ms"),
        (0, "0 ms"),
        (0.0004, "0 ms"),
        (0.25, "250 ms"),
        (0.9996, "1.0 s"),
        (59.9, "59.9 s"),
        (59.96, "1 min 0 s"),
        (61, "1 min 1 s"),
        (3599.4, "59 min 59 s"),
        (3660, "1 h 1 min"),
        (86399.6, "1 d 0 h"),
        (200_000, "2 d 7 h"),
    ],
)
def test_durations_read_well(seconds: float, shown: str) -> None:
    assert duration(dt.timedelta(seconds=seconds)) == shown
