"""Figures of many Runs: endings counted, percentiles by nearest rank."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.runs.domain.figures import Ending, TimedStep, endings, percentile, step_times


@pytest.mark.parametrize(
    ("values", "share", "expected"),
    [([7], 0.5, 7), ([1, 2], 0.5, 1), ([1, 2, 3], 0.5, 2), ([1, 2, 3, 4], 0.95, 4), (list(range(1, 101)), 0.95, 95)],
)
def test_a_percentile_is_a_value_that_was_measured(values: list[float], share: float, expected: float) -> None:
    assert percentile(values, share) == expected


@given(st.lists(st.floats(0, 1e6), min_size=1), st.floats(0.01, 1))
def test_at_least_that_share_is_not_longer(values: list[float], share: float) -> None:
    found = percentile(sorted(values), share)
    assert sum(value <= found for value in values) >= share * len(values) - 1e-6


def test_runs_are_counted_by_how_they_stand_or_ended() -> None:
    assert endings([("completed", "done"), ("failed", None), ("completed", "done"), ("completed", "left")]) == [
        Ending("completed", "done", 2, 0.5),
        Ending("completed", "left", 1, 0.25),
        Ending("failed", None, 1, 0.25),
    ]
    assert endings([]) == []


def test_steps_that_took_longest_come_first() -> None:
    times = step_times(
        [TimedStep("a", "x", 1, 2, False), TimedStep("a", "y", 0, 9, True), TimedStep("a", "x", 3, 4, False)]
    )
    assert [(each.step, each.attempts, each.failed, each.queued_p95, each.ran_p50, each.longest) for each in times] == [
        ("y", 1, 1, 0, 9, 9),
        ("x", 2, 0, 3, 2, 4),
    ]
