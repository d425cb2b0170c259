"""What a background agent's Tools do: those of search, or a Loom agent's on a State of its own (B2)."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from django.db import connection, connections

from apps.agent_sessions.runtime.ended import Stopped, ToolFunction, ToolRefused
from apps.agent_sessions.runtime.tasks import file_tool_id, read_skill_file
from apps.agent_sessions.services.programs import LoomAgent
from apps.agent_sessions.services.search_tools import SearchTool, search_tools
from apps.core import clock, conf
from apps.core.errors import LoomError
from apps.core.ids import new_id
from apps.looms import segments
from apps.looms.authoring.tools import Tool
from apps.looms.tool_calls import ToolInput, check_arguments, run_tool
from apps.runs.services.executing import LedgerReader, off_the_loop
from apps.runs.services.worker import count_lost_thread


def own_functions(project_id: uuid.UUID) -> dict[str, ToolFunction]:
    """The typed search Tools, bound to the Project."""
    return {tool.declared.id: partial(_search, tool, project_id) for tool in search_tools()}


def _search(tool: SearchTool, project_id: uuid.UUID, arguments: dict[str, Any]) -> Any:
    try:
        return tool.run(project_id, arguments)
    except LoomError as refused:
        listed = "".join(f"\n{issue.path}: {issue.suggestion}" for issue in refused.issues)
        raise ToolRefused(f"{refused.message}{listed}") from None
    finally:
        connection.close()


def require_fitting(tool: Tool, arguments: dict[str, Any]) -> None:
    """Refuse, naming every place, an input that is not the Tool's."""
    issues = check_arguments(tool, arguments, max_bytes=conf.settings().max_value_bytes)
    if issues:
        listed = "\n".join(f"{issue.path or 'the input'}: {issue.suggestion}" for issue in issues)
        raise ToolRefused(f"Correct the input, then call it again.\n{listed}")


class StateFailed(Exception):
    """The Loom's own initializer made no State; the message says why."""


@dataclass
class LoomTools:
    """A Loom agent's Tools on a State that nobody else sees and that ends with the session."""

    session_id: uuid.UUID
    project_id: uuid.UUID
    agent: LoomAgent
    input: Any
    goes_on: Callable[[], bool]
    state: Any = None
    _calls: int = field(default=0, repr=False)

    def open_state(self) -> None:
        """Have the Stage's initializer make the State.  Raises :class:`StateFailed`."""
        key = str(self.session_id)
        output = segments.run_segment(
            segments.SegmentInput(
                run_id=key,
                loom=self.agent.loom,
                kind=segments.SegmentKind.INITIALIZE,
                stage=self.agent.stage,
                step=self.agent.step,
                visit=1,
                attempt=1,
                idempotency_key=key,
                input=self.input,
                previous=None,
                previous_step=None,
                state=None,
                continuation=None,
                answer=None,
                now=clock.now(),
                seed=key,
                results=LedgerReader(self.project_id),
                cancelled=lambda: not off_the_loop(self.goes_on),
                new_id=lambda: str(new_id()),
                max_value_bytes=conf.settings().max_value_bytes,
                thread_done=connections.close_all,
            )
        )
        if isinstance(output.ending, segments.Failed):
            raise StateFailed(output.ending.message)
        self.state = output.state

    def functions(self) -> dict[str, ToolFunction]:
        """Each of the program's Tools, by its id."""
        task = self.agent.task
        found: dict[str, ToolFunction] = {tool.id: partial(self._call, tool) for tool in task.tools}
        found.setdefault(file_tool_id(task), partial(read_skill_file, task))
        return found

    def _call(self, tool: Tool, arguments: dict[str, Any]) -> Any:
        if not self.goes_on():
            raise Stopped
        require_fitting(tool, arguments)
        self._calls += 1
        # Nothing of the ledger is held while a Tool works, a connection neither.
        connection.close()
        output = run_tool(
            ToolInput(
                run_id=str(self.session_id),
                call_id=str(self.session_id),
                tool_call_id=str(self._calls),
                loom=self.agent.loom,
                stage=self.agent.stage,
                tool=tool,
                arguments=arguments,
                input=self.input,
                state=self.state,
                results=LedgerReader(self.project_id),
                cancelled=lambda: not off_the_loop(self.goes_on),
                max_value_bytes=conf.settings().max_value_bytes,
                thread_done=connections.close_all,
            )
        )
        if output.abandoned:
            count_lost_thread()
        if output.error is not None:
            raise ToolRefused(output.error)
        self.state = output.state
        return output.output
