"""What a picture of the graph says of a Run: which Steps it has visited, and where it stands or ended."""

from __future__ import annotations

from collections.abc import Mapping

from apps.looms.pictures import Mark, Marks, StepMark
from apps.runs.domain.advancing import visits_by_step
from apps.runs.domain.facts import Position
from apps.runs.domain.statuses import RunStatus


def marks_of(*, status: RunStatus, position: Position, visits: Mapping[str, int]) -> Marks:
    """A mark for every Step that the Run came to; the one at ``position`` says what became of it there."""
    marks = {step: StepMark(Mark.VISITED, number) for step, number in visits_by_step(visits).items()}
    here = (position.stage, position.step)
    marks[here] = StepMark(_kind(status), position.visit, "" if status is RunStatus.COMPLETED else status.value)
    return marks


def _kind(status: RunStatus) -> Mark:
    """Of the Step at the cursor."""
    if status is RunStatus.FAILED:
        return Mark.FAILED
    return Mark.VISITED if status in (RunStatus.COMPLETED, RunStatus.CANCELLED) else Mark.CURRENT
