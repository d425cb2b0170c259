"""The one way in which an agent's Tool is run (A4, A12): values in, values out, never raising."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError
from pydantic_core import PydanticSerializationError

from apps.core import json_text
from apps.core.errors import Issue
from apps.looms.authoring.log import LogLine
from apps.looms.authoring.refusals import ResultInvalid, StateInvalid, ToolError
from apps.looms.authoring.staging import Read, ResultReader
from apps.looms.authoring.steps import ToolCall, Work
from apps.looms.authoring.tools import Tool
from apps.looms.authoring.values import Bounds
from apps.looms.domain.durations import format_duration
from apps.looms.execution import Raised, Returned, call
from apps.looms.loaded import LoadedLoom, fit
from apps.looms.messages import describe_exception, describe_refusal, printable
from apps.looms.opening import open_work


@dataclass(frozen=True, kw_only=True)
class ToolInput:
    """Everything that one Tool call needs; ``arguments`` have passed :func:`check_arguments`."""

    run_id: str
    call_id: str
    tool_call_id: str
    loom: LoadedLoom
    stage: str
    tool: Tool
    arguments: dict[str, Any]
    input: Any
    state: Any
    results: ResultReader
    cancelled: Callable[[], bool]
    max_value_bytes: int = json_text.MAX_VALUE_BYTES
    thread_done: Callable[[], None] = lambda: None


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """What came of it.  ``error`` is what the agent reads, ``None`` when the Tool completed; then
    ``state`` is the State after it, else the one before.  ``abandoned``: its thread goes on."""

    output: Any
    error: str | None
    state: Any
    state_changed: bool
    reads: tuple[Read, ...]
    log: tuple[LogLine, ...]
    abandoned: bool = False


def check_arguments(tool: Tool, arguments: Any, *, max_bytes: int = json_text.MAX_VALUE_BYTES) -> list[Issue]:
    """What keeps ``arguments`` from being this Tool's; pointers are relative to them."""
    return fit(tool.arguments, arguments, max_bytes=max_bytes)[1]


def run_tool(request: ToolInput) -> ToolOutput:
    """Run one Tool call within its timeout."""
    loom = request.loom
    work = open_work(
        loom,
        request.stage,
        reader=request.results,
        max_value_bytes=request.max_value_bytes,
        # A Tool stages nothing, so nothing needs an id.
        new_id=lambda: "",
        is_cancelled=request.cancelled,
    )
    try:
        return _run(request, work)
    except BaseException as error:  # whatever the author's models do must not take the worker along
        return _failed(request, work, _text(error, loom))
    finally:
        work.closed = True


def _run(request: ToolInput, work: Work) -> ToolOutput:
    loom, tool = request.loom, request.tool
    work.cell.load(request.state)
    checked = tool.arguments.model_validate_json(json_text.dumps(request.arguments), strict=True)
    tool_call: ToolCall[Any] = ToolCall(
        work,
        run_id=request.run_id,
        call_id=request.call_id,
        tool_call_id=request.tool_call_id,
        input=loom.read_input(request.input),
        settings=loom.settings,
    )
    called = call(
        tool.function,
        [tool_call],
        tool.keyword_arguments(checked),
        timeout=tool.timeout_seconds,
        thread_done=request.thread_done,
    )
    if isinstance(called, Returned):
        state = work.cell.snapshot()
        changed = json_text.dumps(state) != json_text.dumps(request.state)
        output = _output(tool, called.value, work.bounds)
        return ToolOutput(output, None, state, changed, work.staging.reads(), work.log.lines())
    if isinstance(called, Raised):
        return _failed(request, work, _text(called.error, loom))
    work.closed = True
    message = f"The Tool did not end within its timeout of {format_duration(tool.timeout_seconds)}."
    return _failed(request, work, message, abandoned=called.abandoned)


def _output(tool: Tool, value: Any, bounds: Bounds) -> Any:
    """What the agent gets, as JSON of the declared type."""
    try:
        plain = tool.output.dump_python(tool.output.validate_python(value), mode="json", by_alias=True)
    except (ValidationError, PydanticSerializationError):
        raise ResultInvalid(f"The Tool returned a {type(value).__name__}, which is not what it declares.") from None
    return bounds.json(plain, "The Tool's output")


def _text(error: BaseException, loom: LoadedLoom) -> str:
    if isinstance(error, ToolError):
        return describe_refusal(error, loom.secrets)
    if isinstance(error, (StateInvalid, ResultInvalid)):
        return printable(loom.secrets.redact(str(error)))
    return describe_exception(error, loom.secrets)


def _failed(request: ToolInput, work: Work, message: str, *, abandoned: bool = False) -> ToolOutput:
    return ToolOutput(None, message, request.state, False, (), work.log.lines(), abandoned)
