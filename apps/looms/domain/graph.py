"""A Loom's graph as plain values: what ``loom.yaml`` says, once it has been checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

DEFAULT_MAX_VISITS = 1000
#: Attempts of a segment that may be repeated after an interruption and declares no ``retry`` (R12).
RERUN_ATTEMPTS = 3


@dataclass(frozen=True, slots=True)
class Retry:
    """``attempts`` counts the first; ``errors`` are names as ``segments.Failed.error_names`` has them,
    ``None`` for any exception."""

    attempts: int
    backoff_seconds: float
    errors: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class CodeStepSpec:
    """A Step in Python.  ``on`` routes its outcomes to a Step of the same Stage, or to ``end``."""

    name: str
    code: str
    timeout_seconds: float | None
    retry: Retry | None
    rerun_on_interrupt: bool
    max_visits: int
    on: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class AgentStepSpec:
    """A task for an agent; ``model`` is a role that the operator maps to a model of the service."""

    name: str
    agent: str
    model: str | None
    timeout_seconds: float | None
    output: str
    tools: tuple[str, ...]
    end_tool: str | None
    skills: tuple[str, ...]
    max_visits: int
    on: Mapping[str, str]


StepSpec = CodeStepSpec | AgentStepSpec


@dataclass(frozen=True, slots=True)
class StageSpec:
    """Steps around one typed State; ``state`` and ``initialize`` are both there or both ``None``."""

    name: str
    state: str | None
    initialize: str | None
    entry: str
    steps: Mapping[str, StepSpec]
    on: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class LoomGraph:
    """The whole Loom.  ``stages`` keeps the order of the file."""

    loom: str
    title: str
    description: str
    input: str | None
    settings: str | None
    requires: tuple[str, ...]
    exclusive: bool
    entry: str
    stages: Mapping[str, StageSpec]

    def step(self, stage: str, step: str) -> StepSpec:
        """Raises ``KeyError`` when there is no such Step."""
        return self.stages[stage].steps[step]


def max_attempts(spec: StepSpec) -> int:
    """How often one segment of a visit may be attempted (R12)."""
    if not isinstance(spec, CodeStepSpec):
        return 1
    if spec.retry is not None:
        return spec.retry.attempts
    return RERUN_ATTEMPTS if spec.rerun_on_interrupt else 1
