"""Moving a test Run along: segments, waits, retries, agents' Tool calls and routes, in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from apps.core.errors import Issue
from apps.looms.authoring.log import LogLine
from apps.looms.authoring.refusals import ArtifactConflict, RecordConflict
from apps.looms.authoring.values import in_words
from apps.looms.domain.answers import check_answers, check_confirmation, in_wire_form
from apps.looms.domain.graph import AgentStepSpec, CodeStepSpec
from apps.looms.domain.retrying import retry_delay
from apps.looms.domain.routing import End, NextStage, NotHandled, loop_limit, route
from apps.looms.messages import describe_exception, error_names
from apps.looms.segments import (
    AnswerInput,
    Ask,
    Confirm,
    Failed,
    Outcome,
    SegmentInput,
    SegmentKind,
    SegmentOutput,
    Sleep,
    run_segment,
)
from apps.looms.tool_calls import ToolInput, check_arguments, run_tool
from apps.looms.trial import AgentPlay, LoomRun, Problem, ScriptMismatch, StepTrace, ToolUse

#: Steps of one test; a Loom that still goes on is taken to be stuck.
MAX_STEPS = 10_000
#: What a Step left for the next, and which Step that was.
Previous = tuple[Any, tuple[str, str] | None]


class Driver:
    """Drives one :class:`LoomRun`; what happens is noted there."""

    def __init__(
        self,
        run: LoomRun,
        answers: Sequence[Any],
        agents: Mapping[str, Sequence[AgentPlay | dict[str, Any]]],
        *,
        on_step: Callable[[StepTrace], None] | None,
        on_exception: Callable[[BaseException], None] | None,
    ) -> None:
        self._run = run
        self._answers = iter(answers)
        self._agents: dict[str, Iterator[AgentPlay | dict[str, Any]]] = {
            name: iter(plays) for name, plays in agents.items()
        }
        self._on_step = on_step
        self._on_exception = on_exception
        self._visits: Counter[tuple[str, str]] = Counter()
        self._ids = 0

    def drive(self, until: str | None) -> None:
        """To the end, to ``until``, or to what nothing was given for."""
        run, graph = self._run, self._run.loom.graph
        stage, step = graph.entry, graph.stages[graph.entry].entry
        previous: Previous = (None, None)
        if not self._enter(stage, step):
            return
        for _ in range(MAX_STEPS):
            self._visits[stage, step] += 1
            result = self._visit(stage, step, self._visits[stage, step], previous)
            if result is None:
                return
            outcome, value = result
            after = route(graph, stage=stage, step=step, outcome=outcome)
            if isinstance(after, NotHandled):
                self._fail(Problem("STEP_OUTCOME_NOT_HANDLED", after.message, stage, step, 1))
                return
            if until in (step, f"{stage}.{step}"):
                run.status = "stopped"
                return
            if isinstance(after, End):
                run.status, run.outcome = "completed", after.outcome
                return
            visit = self._visits[after.stage, after.step] + 1
            reason = loop_limit(graph, stage=after.stage, step=after.step, visit=visit)
            if reason is not None:
                self._fail(Problem("LOOP_LIMIT", reason, stage, step, 1))
                return
            previous = (value, (stage, step))
            stage, step = after.stage, after.step
            if isinstance(after, NextStage):
                previous = (None, None)
                if not self._enter(stage, step):
                    return
        raise ScriptMismatch(f"The Run is not over after {MAX_STEPS} Steps.")

    def _visit(self, stage: str, step: str, visit: int, previous: Previous) -> tuple[str, Any] | None:
        """One Step's outcome and what it leaves for the next; ``None`` when the Run stops here."""
        spec = self._run.loom.graph.step(stage, step)
        if isinstance(spec, AgentStepSpec):
            return self._agent_step(stage, spec, visit)
        outcome = self._code_step(stage, spec, visit, previous)
        return None if outcome is None else (outcome, outcome)

    # -- Code ----------------------------------------------------------------------------------

    def _enter(self, stage: str, step: str) -> bool:
        """Run a Stage's initializer."""
        output = run_segment(self._segment(SegmentKind.INITIALIZE, stage, step, 1, 0), on_exception=self._on_exception)
        if isinstance(output.ending, Failed):
            problem = Problem(output.ending.code, output.ending.message, stage, step, 1)
            self._trace(StepTrace(stage, "initialize", 1, 1, "failed", None, output.log, problem))
            self._fail(problem)
            return False
        self._run.state = output.state
        return True

    def _code_step(self, stage: str, spec: CodeStepSpec, visit: int, previous: Previous) -> str | None:
        segment = self._segment(SegmentKind.STEP, stage, spec.name, visit, 0)
        segment = replace(segment, previous=previous[0], previous_step=previous[1])
        number = 0
        while True:
            output = self._attempts(segment, spec)
            if isinstance(output.ending, Outcome):
                return output.ending.outcome
            if isinstance(output.ending, Failed):
                return None
            answer = self._answer(output.ending)
            if answer is None:
                self._run.status = "waiting"
                self._run.pending = output.ending if isinstance(output.ending, Ask | Confirm) else None
                return None
            number += 1
            again = self._segment(SegmentKind.CONTINUATION, stage, spec.name, visit, number)
            segment = replace(
                again,
                previous=previous[0],
                previous_step=previous[1],
                continuation=output.ending.then,
                answer=answer,
            )

    def _attempts(self, segment: SegmentInput, spec: CodeStepSpec) -> SegmentOutput:
        """The segment, attempted as often as its Step says; its results have landed."""
        while True:
            output = self._landed(run_segment(segment, on_exception=self._on_exception), segment)
            problem = self._note(segment, output)
            if problem is None or not isinstance(output.ending, Failed):
                self._run.state = output.state
                return output
            delay = retry_delay(spec.retry, attempt=segment.attempt, error_names=output.ending.error_names)
            if delay is None:
                self._fail(problem)
                return output
            self._run.now += timedelta(seconds=delay)
            segment = replace(segment, attempt=segment.attempt + 1)

    def _landed(self, output: SegmentOutput, segment: SegmentInput) -> SegmentOutput:
        loom = self._run.loom
        if isinstance(output.ending, Outcome):
            after = route(loom.graph, stage=segment.stage, step=segment.step, outcome=output.ending.outcome)
            if isinstance(after, NotHandled):
                return _refused(segment, output, Failed("STEP_OUTCOME_NOT_HANDLED", after.message, ()))
        try:
            self._run.results.land(output.staged, loom_name=loom.name, stage_name=segment.stage)
        except (ArtifactConflict, RecordConflict) as error:
            message = describe_exception(error, loom.secrets)
            return _refused(segment, output, Failed("STEP_FAILED", message, error_names(type(error), loom.package)))
        return output

    def _segment(self, kind: SegmentKind, stage: str, step: str, visit: int, number: int) -> SegmentInput:
        """Segment ``number`` (from 0) of a visit."""
        run = self._run
        place = f"{stage}/{step}/{visit}/{number}"
        return SegmentInput(
            run_id=run.run_id,
            loom=run.loom,
            kind=kind,
            stage=stage,
            step=step,
            visit=visit,
            attempt=1,
            idempotency_key=f"{run.run_id}/{place}",
            input=run.input,
            previous=None,
            previous_step=None,
            state=run.state,
            continuation=None,
            answer=None,
            now=run.now,
            seed=f"{run.random_seed}/{place}",
            results=run.results,
            cancelled=lambda: False,
            new_id=self._new_id,
        )

    def _new_id(self) -> str:
        self._ids += 1
        return f"00000000-0000-7000-9000-{self._ids:012d}"

    # -- people --------------------------------------------------------------------------------

    def _answer(self, wait: Ask | Confirm | Sleep) -> AnswerInput | None:
        """The next answer given; ``None`` when there is none left."""
        if isinstance(wait, Sleep):
            self._run.now = max(self._run.now, wait.until)
            return AnswerInput("sleep")
        given = next(self._answers, ...)
        if given is ...:
            return None
        kind, value, issues = _read_answer(wait, given)
        if issues:
            raise ScriptMismatch(f"The answer does not fit the {kind}: {in_words(issues)}")
        return AnswerInput(kind, value)

    # -- agents --------------------------------------------------------------------------------

    def _agent_step(self, stage: str, spec: AgentStepSpec, visit: int) -> tuple[str, Any] | None:
        run = self._run
        task = run.loom.agents[stage, spec.name]
        plays = self._agents.get(f"{stage}.{spec.name}", self._agents.get(spec.name))
        play = None if plays is None else next(plays, None)
        if play is None:
            run.status, run.pending = "waiting", task
            return None
        if not isinstance(play, AgentPlay):
            play = AgentPlay(play)
        log: list[LogLine] = []
        for number, use in enumerate(play.calls, start=1):
            log += self._call_tool(stage, spec, visit, use, number)
        outcome, issues = task.read_output(play.output)
        if issues:
            problem = Problem("AGENT_OUTPUT_INVALID", in_words(issues), stage, spec.name, 1)
            self._trace(StepTrace(stage, spec.name, visit, 1, "failed", run.state, tuple(log), problem))
            self._fail(problem)
            return None
        outcome = str(outcome)
        self._trace(StepTrace(stage, spec.name, visit, 1, outcome, run.state, tuple(log)))
        return outcome, play.output

    def _call_tool(self, stage: str, spec: AgentStepSpec, visit: int, use: ToolUse, number: int) -> tuple[LogLine, ...]:
        run = self._run
        tool = run.loom.agents[stage, spec.name].tool(use.tool)
        if tool is None:
            raise ScriptMismatch(f"Step {stage}.{spec.name} declares no Tool {use.tool}.")
        issues = check_arguments(tool, use.input)
        if issues:
            raise ScriptMismatch(f"The input of Tool {use.tool} does not fit: {in_words(issues)}")
        output = run_tool(
            ToolInput(
                run_id=run.run_id,
                call_id=f"{stage}.{spec.name}.{visit}",
                tool_call_id=str(number),
                loom=run.loom,
                stage=stage,
                tool=tool,
                arguments=use.input,
                input=run.input,
                state=run.state,
                results=run.results,
                cancelled=lambda: False,
            )
        )
        _compare(use, output.output, output.error)
        run.state = output.state
        return output.log

    # -- notes ---------------------------------------------------------------------------------

    def _note(self, segment: SegmentInput, output: SegmentOutput) -> Problem | None:
        """Keep what an attempt came to; its failure, if it is one."""
        ending, problem = output.ending, None
        if isinstance(ending, Outcome):
            ended = ending.outcome
        elif isinstance(ending, Failed):
            ended = "failed"
            problem = Problem(ending.code, ending.message, segment.stage, segment.step, segment.attempt)
        else:
            ended = "slept" if isinstance(ending, Sleep) else "asked"
        self._trace(
            StepTrace(
                segment.stage, segment.step, segment.visit, segment.attempt, ended, output.state, output.log, problem
            )
        )
        return problem

    def _trace(self, trace: StepTrace) -> None:
        self._run.steps.append(trace)
        if self._on_step is not None:
            self._on_step(trace)

    def _fail(self, problem: Problem) -> None:
        self._run.status = "failed"
        self._run.problem = problem


def _refused(segment: SegmentInput, output: SegmentOutput, failed: Failed) -> SegmentOutput:
    """The segment as one that failed: nothing of it lands."""
    return SegmentOutput(failed, segment.state, False, (), (), output.log)


def _read_answer(wait: Ask | Confirm, given: Any) -> tuple[str, Any, list[Issue]]:
    """Kind and wire form of an answer, which may be given in short."""
    kind = "confirmation" if isinstance(wait, Confirm) else "questions"
    value = in_wire_form(kind, given)
    issues = check_confirmation(value) if isinstance(wait, Confirm) else check_answers(wait.request, value)
    return kind, value, issues


def _compare(use: ToolUse, output: Any, error: str | None) -> None:
    if use.error is not None:
        if error is None:
            raise ScriptMismatch(f"Tool {use.tool} completed; the test expects the error {use.error!r}.")
        if use.error not in error:
            raise ScriptMismatch(f"Tool {use.tool} failed with {error!r}; the test expects {use.error!r}.")
    elif error is not None:
        raise ScriptMismatch(f"Tool {use.tool} failed: {error}")
    elif use.output is not ... and use.output != output:
        raise ScriptMismatch(f"Tool {use.tool} returned {output!r}; the test expects {use.output!r}.")
