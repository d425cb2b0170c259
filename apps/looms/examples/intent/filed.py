"""What earlier Stages filed.  Stages share no State; the Loom is exclusive, so their Artifacts are this Run's."""

from typing import Any, TypeVar

from pydantic import BaseModel

from loomsvc.authoring import CodeStep, ToolCall

from .schemas import Check, Manifest, Plan, Report, Request, Solution, Specification

LOOM = "intent"
M = TypeVar("M", bound=BaseModel)
Reader = CodeStep[Any, Request] | ToolCall[Any, Request]


def _artifact(reader: Reader, stage: str, model: type[M]) -> M:
    found = reader.artifacts.get(LOOM, stage)
    if found is None:
        raise LookupError(f"The Stage {stage} has filed nothing.")
    return model.model_validate(found.data)


def specification(reader: Reader) -> Specification:
    return _artifact(reader, "specification", Specification)


def solution(reader: Reader) -> Solution:
    return _artifact(reader, "solution", Solution)


def manifest(reader: Reader) -> Manifest:
    return _artifact(reader, "implementation", Manifest)


def report(reader: Reader) -> Report:
    return _artifact(reader, "validation", Report)


def all_checks(request: Request, plan: Plan) -> list[Check]:
    """Those that came with the wish, then the plan's own."""
    given = [Check(command=command, purpose="It came with the wish.") for command in request.checks]
    return given + [check for check in plan.checks if check.command not in request.checks]
