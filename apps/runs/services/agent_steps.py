"""Handing an Agent Step that is due to whoever carries it out (R13, R15)."""

from __future__ import annotations

import datetime as dt

from django.db import transaction

from apps.core.database import for_update
from apps.core.errors import LoomError
from apps.looms.domain.graph import AgentStepSpec
from apps.runs.domain.advancing import step_of
from apps.runs.domain.executors import executor_for
from apps.runs.domain.facts import RunError
from apps.runs.domain.statuses import RunErrorCode, RunStatus, SegmentKind
from apps.runs.models import Run
from apps.runs.services.leasing import Leased, pause_for


def is_for_an_agent(leased: Leased) -> bool:
    """Whether the leased segment is an Agent Step, not Code."""
    spec = step_of(leased.loom.graph, leased.position)
    return leased.due.kind is SegmentKind.STEP and isinstance(spec, AgentStepSpec)


def open_agent_step(leased: Leased, *, now: dt.datetime) -> None:
    """Let the Run's executor open the call; without one that is there, the Run is paused and says why."""
    try:
        executor_for(leased.agent_executor).open_call(run_id=leased.run_id, fence=leased.fence)
    except LoomError as unavailable:
        error = RunError(RunErrorCode.MODEL_REQUEST_FAILED, unavailable.message)
        with transaction.atomic():
            held = Run.objects.filter(pk=leased.run_id, fence=leased.fence, status=RunStatus.RUNNING)
            run = for_update(held).first()
            if run is not None:
                run.fence += 1
                pause_for(run, error, now=now)
