"""A Run of the tester: where it stands, what came of it, and what plays the agents in it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from apps.looms.authoring.log import LogLine
from apps.looms.authoring.waits import Ask, Confirm
from apps.looms.loaded import AgentTask, LoadedLoom
from apps.looms.memory_results import MemoryResults

START = dt.datetime(2026, 1, 1, 12, 0, tzinfo=dt.UTC)


class ScriptMismatch(Exception):
    """The Loom asked for something that the test does not play, or plays otherwise."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a Run failed: a Run error's code, its message, and where."""

    code: str
    message: str
    stage: str
    step: str
    attempt: int

    @property
    def place(self) -> str:
        """``stage.step``, and the attempt if it was not the first."""
        return f"{self.stage}.{self.step}" + (f", attempt {self.attempt}" if self.attempt > 1 else "")


@dataclass(frozen=True, slots=True)
class StepTrace:
    """One attempt at a segment, or one Agent Step: what it ended with (an outcome, ``asked``,
    ``slept``, ``failed``), and State after it.  ``problem`` says why it failed."""

    stage: str
    step: str
    visit: int
    attempt: int
    ended: str
    state: Any
    log: tuple[LogLine, ...] = ()
    problem: Problem | None = None


@dataclass(frozen=True, slots=True)
class ToolUse:
    """One Tool call that an agent makes; ``output`` or ``error`` is what the test expects of it."""

    tool: str
    input: dict[str, Any]
    output: Any = ...
    error: str | None = None


@dataclass(frozen=True, slots=True)
class AgentPlay:
    """What an agent does in one visit: Tool calls in order, then its final output."""

    output: Any
    calls: Sequence[ToolUse] = ()


@dataclass
class LoomRun:
    """A test Run: where it stands, and everything that came of it.

    ``status`` is ``completed``, ``failed``, ``waiting`` (for an answer or agent that was not given)
    or ``stopped`` (after the Step given as ``until``).
    """

    loom: LoadedLoom
    input: Any
    run_id: str = "00000000-0000-7000-8000-000000000001"
    status: str = "running"
    outcome: str | None = None
    problem: Problem | None = None
    #: The wait, or the Agent Step's task, that nothing was given for.
    pending: Ask | Confirm | AgentTask | None = None
    state: Any = None
    steps: list[StepTrace] = field(default_factory=list)
    results: MemoryResults = field(default_factory=MemoryResults)
    now: dt.datetime = START
    #: Another seed, other numbers in ``step.random``.
    random_seed: int = 0

    def artifact(self, stage: str) -> Any:
        """The data of a Stage's Artifact, ``None`` when there is none."""
        found = self.results.artifact_at(self.loom.name, stage)
        return None if found is None else found.data

    def records(self, stage: str) -> list[Any]:
        """The data of a Stage's Records, oldest first."""
        mine = (self.loom.name, stage)
        return [one.data for one in self.results.records.values() if (one.loom_name, one.stage_name) == mine]

    def path(self) -> list[str]:
        """``stage.step`` of each completed visit, in order."""
        return [f"{one.stage}.{one.step}" for one in self.steps if one.ended not in ("asked", "slept", "failed")]
