"""What stands behind the objects that Code is called with, made anew for each segment and Tool call."""

from __future__ import annotations

from collections.abc import Callable

from apps.looms.authoring.log import Log
from apps.looms.authoring.staging import ResultReader, Staging
from apps.looms.authoring.state import StateCell
from apps.looms.authoring.steps import Work
from apps.looms.authoring.values import Bounds
from apps.looms.loaded import LoadedLoom


def open_work(
    loom: LoadedLoom,
    stage: str,
    *,
    reader: ResultReader,
    max_value_bytes: int,
    new_id: Callable[[], str],
    is_cancelled: Callable[[], bool],
) -> Work:
    """Fresh work in ``stage``: no State loaded, nothing staged; values take at most ``max_value_bytes``."""
    bounds = Bounds(max_value_bytes, loom.secrets)
    return Work(
        loom_name=loom.name,
        package=loom.package,
        bounds=bounds,
        cell=StateCell(loom.state_type(stage), bounds),
        staging=Staging(loom_name=loom.name, stage_name=stage, reader=reader, bounds=bounds, new_id=new_id),
        log=Log(loom.secrets),
        is_cancelled=is_cancelled,
    )
