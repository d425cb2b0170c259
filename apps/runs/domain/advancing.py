"""What comes after a segment, as values: the engine's decisions without a database (R6, R7, R9, R10, R12)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from apps.looms.domain.graph import AgentStepSpec, CodeStepSpec, LoomGraph, Retry, max_attempts
from apps.looms.domain.retrying import retry_delay
from apps.looms.domain.routing import End, NextStage, NextStep, NotHandled, loop_limit, route
from apps.runs.domain.facts import Due, Position, RunError
from apps.runs.domain.statuses import RunErrorCode, SegmentKind

#: Initializers, and the opening of a call, are repeated this often after a lost worker (R13).
REPEATABLE_ATTEMPTS = 3


@dataclass(frozen=True, slots=True)
class GoOn:
    """The Run is queued with ``due`` at ``position``; ``enters_stage`` starts a fresh State there."""

    position: Position
    due: Due
    visits: Mapping[str, int]
    enters_stage: bool


@dataclass(frozen=True, slots=True)
class Complete:
    """The Run ends with ``outcome``."""

    outcome: str


@dataclass(frozen=True, slots=True)
class Fail:
    """The Run ends with ``error``."""

    error: RunError


@dataclass(frozen=True, slots=True)
class RetryLater:
    """The same segment is due again after ``seconds``."""

    seconds: float


Next = GoOn | Complete | Fail


def step_of(graph: LoomGraph, position: Position) -> CodeStepSpec | AgentStepSpec:
    """The Step at a position; the graph was checked, so it is there."""
    return graph.stages[position.stage].steps[position.step]


def start(graph: LoomGraph) -> GoOn:
    """Where a new Run begins: the entry Stage's initializer is due (boundary 0)."""
    stage = graph.stages[graph.entry]
    return GoOn(
        Position(stage.name, stage.entry, 1),
        Due(SegmentKind.INITIALIZE),
        {_visit_key(stage.name, stage.entry): 1},
        enters_stage=True,
    )


def _visit_key(stage: str, step: str) -> str:
    return f"{stage}/{step}"


def visits_by_step(visits: Mapping[str, int]) -> dict[tuple[str, str], int]:
    """How often each (Stage, Step) was visited."""
    return {(stage, step): number for key, number in visits.items() for stage, _, step in [key.partition("/")]}


def check_outcome(graph: LoomGraph, position: Position, outcome: str) -> RunError | None:
    """Outcomes are checked when the result is saved, before any pause (R7)."""
    routed = route(graph, stage=position.stage, step=position.step, outcome=outcome)
    if isinstance(routed, NotHandled):
        return RunError(RunErrorCode.STEP_OUTCOME_NOT_HANDLED, routed.message)
    return None


def follow(graph: LoomGraph, position: Position, outcome: str, visits: Mapping[str, int]) -> Next:
    """Route a saved outcome: to the next Step, into the next Stage, or to the end (R7, R10)."""
    routed = route(graph, stage=position.stage, step=position.step, outcome=outcome)
    match routed:
        case End(outcome=final):
            return Complete(final)
        case NotHandled(message=message):
            return Fail(RunError(RunErrorCode.STEP_OUTCOME_NOT_HANDLED, message))
        case NextStep(stage=stage, step=step) | NextStage(stage=stage, step=step):
            return _enter(graph, stage, step, visits, enters_stage=isinstance(routed, NextStage))


def _enter(graph: LoomGraph, stage: str, step: str, visits: Mapping[str, int], *, enters_stage: bool) -> GoOn | Fail:
    key = _visit_key(stage, step)
    visit = visits.get(key, 0) + 1
    reason = loop_limit(graph, stage=stage, step=step, visit=visit)
    if reason is not None:
        return Fail(RunError(RunErrorCode.LOOP_LIMIT, reason))
    kind = SegmentKind.INITIALIZE if enters_stage else SegmentKind.STEP
    return GoOn(Position(stage, step, visit), Due(kind), {**visits, key: visit}, enters_stage=enters_stage)


@dataclass(frozen=True, slots=True)
class SegmentPolicy:
    """What a segment declares about failing, taking long and losing its worker (R12, R13).

    Kept on the Run's row, so that whoever finds it abandoned can decide without the Loom.
    ``model_asked``: a request to a model of the service may have gone out.
    """

    timeout_seconds: float | None = None
    interruption_limit: int = 1
    retry: Retry | None = None
    model_asked: bool = False

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, body: dict[str, Any]) -> SegmentPolicy:
        retry = body["retry"]
        if retry is not None:
            errors = retry["errors"]
            retry = Retry(retry["attempts"], retry["backoff_seconds"], None if errors is None else tuple(errors))
        return cls(body["timeout_seconds"], body["interruption_limit"], retry, body.get("model_asked", False))


def policy_of(graph: LoomGraph, position: Position, kind: SegmentKind) -> SegmentPolicy:
    """The policy of a segment of ``kind`` at ``position``."""
    spec = step_of(graph, position)
    if kind is SegmentKind.INITIALIZE or isinstance(spec, AgentStepSpec):
        return SegmentPolicy(interruption_limit=REPEATABLE_ATTEMPTS)
    return SegmentPolicy(
        timeout_seconds=spec.timeout_seconds,
        interruption_limit=max_attempts(spec) if spec.rerun_on_interrupt else 1,
        retry=spec.retry,
    )


def after_failure(policy: SegmentPolicy, due: Due, *, error_names: Collection[str]) -> RetryLater | None:
    """The retry that the Step declares for this failure, or ``None`` (R12).

    ``error_names``: the exception's classes and their bases; none for a result that was nonsense,
    which would only be repeated.  ``due.attempts`` counts the attempts before this one.
    """
    seconds = retry_delay(policy.retry, attempt=due.attempts + 1, error_names=error_names)
    return None if seconds is None else RetryLater(seconds)


def after_interruption(policy: SegmentPolicy, due: Due) -> RunError | None:
    """``None`` when the segment is due again, else why the Run fails (R13)."""
    made = due.attempts + 1
    if made < policy.interruption_limit:
        return None
    if policy.model_asked:
        return RunError(
            RunErrorCode.RUN_INTERRUPTED,
            "The worker was lost while a model worked at this Step. What was asked of the model may have been done and "
            "counted, so nothing is sent again; the Run's events say how far it came. Start a new Run to go on.",
        )
    again = "" if policy.interruption_limit == 1 else f", attempt {made} of {policy.interruption_limit},"
    return RunError(
        RunErrorCode.RUN_INTERRUPTED,
        f"The worker was lost while this Step ran{again}; what it did outside the ledger is unknown. Look before "
        "you start a new Run, or declare `on_interrupt: rerun` for a Step that may be repeated.",
    )
