"""What comes after an outcome, and whether a Step may be visited once more (R7)."""

from __future__ import annotations

from dataclasses import dataclass

from apps.looms.domain.graph import LoomGraph
from apps.looms.domain.names import END


@dataclass(frozen=True, slots=True)
class NextStep:
    """Another Step (or the same again) of the same Stage."""

    stage: str
    step: str


@dataclass(frozen=True, slots=True)
class NextStage:
    """The entry Step of another Stage, whose initializer runs first."""

    stage: str
    step: str


@dataclass(frozen=True, slots=True)
class End:
    """The Run is completed with this outcome."""

    outcome: str


@dataclass(frozen=True, slots=True)
class NotHandled:
    """The graph has no route for the outcome."""

    message: str


Route = NextStep | NextStage | End | NotHandled


def route(graph: LoomGraph, *, stage: str, step: str, outcome: str) -> Route:
    """Where ``outcome`` of a Step leads.

    An outcome that the Step routes to ``end`` becomes the Stage's; the Stage's own ``on`` then leads
    to another Stage or ends the Run.
    """
    here = graph.stages[stage]
    routes = here.steps[step].on
    if outcome not in routes:
        return NotHandled(f"Step {stage}.{step} has no route for outcome {outcome!r}; it has: {', '.join(routes)}.")
    if routes[outcome] != END:
        return NextStep(stage, routes[outcome])
    if outcome not in here.on:
        known = ", ".join(here.on) or "none"
        return NotHandled(f"Stage {stage} has no route for outcome {outcome!r}; it has: {known}.")
    if here.on[outcome] == END:
        return End(outcome)
    return NextStage(here.on[outcome], graph.stages[here.on[outcome]].entry)


def loop_limit(graph: LoomGraph, *, stage: str, step: str, visit: int) -> str | None:
    """Why a Step may not be visited for the ``visit``-th time (from 1); ``None`` when it may."""
    limit = graph.step(stage, step).max_visits
    return f"Step {stage}.{step} has used up its max_visits of {limit}." if visit > limit else None
