import os
import signal
import time
from pathlib import Path

from pydantic import BaseModel

from loomsvc.authoring import ToolCall, ToolError, tool

from .steps import Input, Notes


class Count(BaseModel):
    lines: int


@tool
def add(call: ToolCall[Notes, Input], line: str, times: int = 1) -> Count:
    """Add a line."""
    call.update(lines=[*call.state.lines, *[line] * times])
    return Count(lines=len(call.state.lines))


@tool
def recall(call: ToolCall[Notes, Input]) -> str | None:
    """What an earlier Run kept here."""
    found = call.artifacts.get("assist", "work")
    return None if found is None else found.data["text"]


@tool
def refuse(call: ToolCall[Notes, Input]) -> None:
    """Refuses."""
    call.update(lines=["lost"])
    raise ToolError("Ask more politely.")


@tool
def stumble(call: ToolCall[Notes, Input]) -> None:
    """Raises."""
    raise ZeroDivisionError("by nought")


@tool(timeout="20s")
def linger(call: ToolCall[Notes, Input], line: str = "lingered", seconds: float = 0.0) -> Count:
    """Takes its time: until the input's gate opens, or for some seconds."""
    call.update(lines=[*call.state.lines, line])
    if call.input.mark:
        Path(call.input.mark).touch()
    ends = time.monotonic() + seconds
    while time.monotonic() < ends or (call.input.gate and not Path(call.input.gate).exists()):
        time.sleep(0.01)
    return Count(lines=len(call.state.lines))


@tool
def die(call: ToolCall[Notes, Input]) -> None:
    """Takes its process along."""
    call.update(lines=["never"])
    os.kill(os.getpid(), signal.SIGKILL)


@tool
def nonsense(call: ToolCall[Notes, Input]) -> Count:
    """Returns what it does not declare."""
    return "three"  # type: ignore[return-value]


@tool
def finish(call: ToolCall[Notes, Input]) -> Count:
    """Finish gathering."""
    return Count(lines=len(call.state.lines))
