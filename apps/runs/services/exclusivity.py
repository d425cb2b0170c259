"""One non-terminal Run of an exclusive Loom in a Project at a time (R8)."""

from __future__ import annotations

import uuid

from apps.core.database import lock_name
from apps.core.errors import ErrorCode, LoomError
from apps.runs.selectors.exclusivity import open_run


def hold_exclusive(*, project_id: uuid.UUID, loom_name: str) -> uuid.UUID | None:
    """Keep others from starting a Run of this Loom until the transaction ends; a Run that has not ended."""
    lock_name("exclusive", project_id, loom_name)
    return open_run(project_id=project_id, loom_name=loom_name)


def require_no_other(*, project_id: uuid.UUID, loom_name: str) -> None:
    """Hold the Loom for the Run that is about to start; ``BUSY`` while another one has not ended."""
    other = hold_exclusive(project_id=project_id, loom_name=loom_name)
    if other is not None:
        raise LoomError(
            ErrorCode.BUSY,
            f"Loom {loom_name} runs one at a time, and Run {other} has not ended. Wait for it or cancel it, then "
            "start again under a new operationId.",
            details={"runId": str(other)},
        )
