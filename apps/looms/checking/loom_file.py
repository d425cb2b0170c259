"""From ``loom.yaml`` to the :class:`LoomGraph`, or to what is wrong with the file's shape."""

from __future__ import annotations

from pydantic import ValidationError

from apps.looms.checking.shape_problems import shape_problem
from apps.looms.checking.shapes import AgentShape, CodeShape, LoomShape, RetryShape, StageShape
from apps.looms.checking.yaml_tree import Document
from apps.looms.diagnostics import Diagnostic
from apps.looms.domain.durations import parse_duration
from apps.looms.domain.graph import AgentStepSpec, CodeStepSpec, LoomGraph, Retry, StageSpec, StepSpec


def read_loom_file(document: Document) -> tuple[LoomGraph | None, list[Diagnostic]]:
    """The graph, or everything about the file's shape that keeps it from being one."""
    try:
        shape = LoomShape.model_validate(document.value)
    except ValidationError as error:
        details = error.errors(include_url=False, include_input=True)
        return None, [shape_problem(document, detail) for detail in details]
    return _graph(shape), []


def _graph(shape: LoomShape) -> LoomGraph:
    return LoomGraph(
        loom=shape.loom,
        title=shape.title.strip(),
        description=shape.description.strip(),
        input=shape.input,
        settings=shape.settings,
        requires=tuple(shape.requires),
        exclusive=shape.exclusive,
        entry=shape.entry,
        stages={name: _stage(name, stage) for name, stage in shape.stages.items()},
    )


def _stage(name: str, shape: StageShape) -> StageSpec:
    steps = {step: _step(step, step_shape) for step, step_shape in shape.steps.items()}
    return StageSpec(name, shape.state, shape.initialize, shape.entry, steps, dict(shape.on))


def _step(name: str, shape: CodeShape | AgentShape) -> StepSpec:
    timeout = None if shape.timeout is None else parse_duration(shape.timeout)
    if isinstance(shape, AgentShape):
        return AgentStepSpec(
            name=name,
            agent=shape.agent,
            model=shape.model,
            timeout_seconds=timeout,
            output=shape.output,
            tools=tuple(shape.tools),
            end_tool=shape.end_tool,
            skills=tuple(shape.skills),
            max_visits=shape.max_visits,
            on=dict(shape.on),
        )
    return CodeStepSpec(
        name=name,
        code=shape.code,
        timeout_seconds=timeout,
        retry=None if shape.retry is None else _retry(shape.retry),
        rerun_on_interrupt=shape.on_interrupt == "rerun",
        max_visits=shape.max_visits,
        on=dict(shape.on),
    )


def _retry(shape: RetryShape) -> Retry:
    errors = None if shape.errors is None else tuple(shape.errors)
    return Retry(shape.attempts, parse_duration(shape.backoff), errors)
