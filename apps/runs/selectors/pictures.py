"""Where a Run stands in the graph of its Release."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any

from apps.core.errors import ErrorCode, LoomError
from apps.looms.domain.graph import LoomGraph
from apps.looms.pictures import Marks
from apps.looms.services.releases import load_release
from apps.runs.domain.facts import Position
from apps.runs.domain.marking import marks_of
from apps.runs.domain.statuses import RunStatus
from apps.runs.models import Run


@dataclass(frozen=True, slots=True)
class RunPicture:
    """A Run's graph with what the Run did there; ``problem`` is its ``lastError`` in words."""

    run_id: str
    release_digest: str
    status: RunStatus
    problem: str | None
    graph: LoomGraph
    marks: Marks

    def to_wire(self) -> dict[str, Any]:
        """The Run's part of the picture, beside the graph."""
        steps = [
            {"stage": stage, "step": step, "mark": mark.kind.value, "visits": mark.visits}
            for (stage, step), mark in self.marks.items()
        ]
        return {"runId": self.run_id, "releaseDigest": self.release_digest, "status": self.status, "steps": steps}


def as_run_id(text: str) -> uuid.UUID | None:
    """``text`` as the id of a Run; ``None`` when it is none."""
    try:
        found = uuid.UUID(text)
    except ValueError:
        return None
    return found if str(found) == text.lower() else None


_DRAWN = ("release_digest", "status", "stage", "step", "visit", "visits", "last_error")


def picture_of(*, run_id: uuid.UUID) -> RunPicture:
    """The picture of a Run of any Project, for the operator; ``NOT_FOUND``, or ``RELEASE_UNAVAILABLE`` (R14)."""
    run = Run.objects.only(*_DRAWN).filter(pk=run_id).first()
    if run is None:
        raise LoomError(ErrorCode.NOT_FOUND, f"No Run {run_id} in this ledger; --data names the folder of another.")
    status, error = RunStatus(run.status), run.last_error
    return RunPicture(
        run_id=str(run.pk),
        release_digest=run.release_digest,
        status=status,
        problem=f"{error['code']}: {error['message']}" if error else None,
        graph=load_release(run.release_digest).graph,
        marks=marks_of(status=status, position=Position(run.stage, run.step, run.visit), visits=run.visits),
    )
