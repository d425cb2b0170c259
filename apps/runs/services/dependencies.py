"""What a pausing Run depends on, kept in the pausing transaction (M8)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from apps.core import json_text
from apps.runs.domain.boundaries import Dependency, HeldState
from apps.runs.models import Run
from apps.runs.selectors.dependencies import as_standing


def dependencies_json(state: HeldState | None, artifacts: Iterable[Dependency]) -> dict[str, Any]:
    """As the Run's row keeps them while it is paused."""
    return {
        "state": None if state is None else {"id": str(state.id), "digest": state.digest},
        "artifacts": [one.to_json() for one in artifacts],
    }


def keep_dependencies(run: Run) -> None:
    """Note on a locked Run that is being paused how its State and its Artifacts stand now."""
    state = None
    if run.state is not None:
        state = HeldState(run.state.pk, run.state.stage, run.state.data, json_text.digest(run.state.data))
    artifacts = as_standing(project_id=run.project_id, run_id=run.pk, before=run.step_seq)
    run.dependencies = dependencies_json(state, artifacts)
