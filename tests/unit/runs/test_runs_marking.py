"""Truth table: how the Step is lit at which a Run stands or ended."""

from __future__ import annotations

import pytest

from apps.looms.pictures import Mark, StepMark
from apps.runs.domain.facts import Position
from apps.runs.domain.marking import marks_of
from apps.runs.domain.statuses import RunStatus

KINDS = {
    RunStatus.QUEUED: Mark.CURRENT,
    RunStatus.RUNNING: Mark.CURRENT,
    RunStatus.WAITING: Mark.CURRENT,
    RunStatus.PAUSED: Mark.CURRENT,
    RunStatus.COMPLETED: Mark.VISITED,
    RunStatus.FAILED: Mark.FAILED,
    RunStatus.CANCELLED: Mark.VISITED,
}


@pytest.mark.parametrize("status", RunStatus)
def test_the_step_at_the_cursor_says_what_became_of_the_run_there(status: RunStatus) -> None:
    found = marks_of(status=status, position=Position("b", "y", 2), visits={"a/x": 3, "b/y": 2})
    note = "" if status is RunStatus.COMPLETED else status.value
    assert found == {("a", "x"): StepMark(Mark.VISITED, 3), ("b", "y"): StepMark(KINDS[status], 2, note)}
