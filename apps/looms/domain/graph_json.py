"""A graph as JSON, for the faces."""

from __future__ import annotations

from typing import Any

from apps.looms.domain.durations import format_duration
from apps.looms.domain.graph import AgentStepSpec, CodeStepSpec, LoomGraph, StepSpec


def graph_json(graph: LoomGraph) -> dict[str, Any]:
    """``{entry, stages: [{name, entry, steps, on}]}`` in the order of the file; wire names."""
    return {
        "entry": graph.entry,
        "stages": [
            {
                "name": stage.name,
                "entry": stage.entry,
                "steps": [_step(step) for step in stage.steps.values()],
                "on": dict(stage.on),
            }
            for stage in graph.stages.values()
        ],
    }


def kind_of(step: StepSpec) -> str:
    """``code`` or ``agent``."""
    return "code" if isinstance(step, CodeStepSpec) else "agent"


def _step(step: StepSpec) -> dict[str, Any]:
    body: dict[str, Any] = {"name": step.name, "kind": kind_of(step), "on": dict(step.on), "maxVisits": step.max_visits}
    if step.timeout_seconds is not None:
        body["timeout"] = format_duration(step.timeout_seconds)
    if isinstance(step, AgentStepSpec):
        return body | {"agent": step.agent, **({"model": step.model} if step.model else {})}
    if step.retry is not None:
        body["retry"] = {
            "attempts": step.retry.attempts,
            "backoff": format_duration(step.retry.backoff_seconds),
            **({"errors": list(step.retry.errors)} if step.retry.errors is not None else {}),
        }
    return body | {"onInterrupt": "rerun" if step.rerun_on_interrupt else "fail"}
