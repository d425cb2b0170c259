"""The rounds of requests and Tool calls by which a model comes to an output (B3, B6, B9)."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

from pydantic_ai.messages import (
    InstructionPart,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from apps.agent_sessions.domain.programs import Program, program_digest
from apps.agent_sessions.runtime.addresses import AddressRefused, read_base_url
from apps.agent_sessions.runtime.ended import (
    Access,
    Cancelled,
    Check,
    Ended,
    Failed,
    Limits,
    Stopped,
    Succeeded,
    ToolFunction,
    ToolRefused,
    Usage,
)
from apps.agent_sessions.runtime.failing import MODEL_REQUEST_FAILED, Fault, fault_of, filtered, missing_key, truncated
from apps.agent_sessions.runtime.fitting import find_misfits, in_words
from apps.agent_sessions.runtime.models import catalogue
from apps.agent_sessions.runtime.offline import offline_model
from apps.agent_sessions.runtime.prompting import system_text, user_text
from apps.agent_sessions.runtime.scripts import OFFLINE
from apps.agent_sessions.runtime.submitting import Submission, submission_for
from apps.agent_sessions.runtime.wires import ask, opened
from apps.core import json_text
from apps.core.errors import Issue

logger = logging.getLogger("loomsvc.models")

#: Of one response: more than any model takes or says.
MOST_TOKENS = 1_000_000_000


def carry_out(
    program: Program,
    input: Any,
    *,
    tools: Mapping[str, ToolFunction],
    access: Access,
    limits: Limits,
    before_request: Callable[[], bool],
    report: Callable[[Usage], None],
    check: Check | None,
) -> Ended:
    """What :func:`apps.agent_sessions.runtime.reasoning.reason` promises."""
    if access.kind != OFFLINE and access.api_key is None and access.needs_key:
        fault = missing_key(access)
        return Failed(MODEL_REQUEST_FAILED, fault.reason, fault.message, Usage(), fault.recovery)
    if access.base_url is not None:
        try:
            read_base_url(access.base_url)
        except AddressRefused as refused:
            return Failed(MODEL_REQUEST_FAILED, "address_refused", str(refused), Usage())
    work = _Work(program, input, tools, access, limits, before_request, report, check)
    with asyncio.Runner() as runner:
        try:
            work.open(runner)
            return work.run(runner)
        finally:
            runner.run(work.connections.aclose())


@dataclass
class _Work:
    program: Program
    input: Any
    tools: Mapping[str, ToolFunction]
    access: Access
    limits: Limits
    before_request: Callable[[], bool]
    report: Callable[[Usage], None]
    check: Check | None
    usage: Usage = field(default_factory=Usage)
    connections: AsyncExitStack = field(default_factory=AsyncExitStack)
    messages: list[ModelMessage] = field(default_factory=list)
    tools_closed: bool = False
    repairs: int = 0

    def open(self, runner: asyncio.Runner) -> None:
        """Make the model, and what it is told about the work."""
        schema = self.program.output_schema
        taken = [tool.id for tool in self.program.tools]
        self.submission: Submission | None = None if schema is None else submission_for(schema, taken=taken)
        submit = None if self.submission is None else self.submission.name
        self.ends_at = time.monotonic() + self.limits.seconds
        self.parameters = ModelRequestParameters(
            function_tools=self._definitions(),
            instruction_parts=[InstructionPart(content=system_text(self.program, submit=submit))],
        )
        self.model: Model = (
            self._offline()
            if self.access.kind == OFFLINE
            else runner.run(
                self.connections.enter_async_context(opened(self.access, seconds=self.limits.request_seconds))
            )
        )

    def _definitions(self) -> list[ToolDefinition]:
        declared = [
            ToolDefinition(
                name=tool.id, description=tool.description, parameters_json_schema=tool.input_schema, strict=False
            )
            for tool in self.program.tools
        ]
        return declared if self.submission is None else [*declared, self.submission.definition()]

    def _offline(self) -> Model:
        script = self.access.script or catalogue().scripts.get(program_digest(self.program))
        return offline_model(script, self.input, self.program.output_schema, self.submission)

    # -- the loop ------------------------------------------------------------------------------

    def run(self, runner: asyncio.Runner) -> Ended:
        self.messages.append(self._said(UserPromptPart(content=user_text(self.input))))
        for _ in range(self.limits.turns):
            answered = self._request(runner)
            if not isinstance(answered, ModelResponse):
                return answered
            self.messages.append(answered)
            try:
                ended = self._act_on(answered)
            except Stopped:
                return Cancelled(self.usage)
            if ended is not None:
                return ended
        return Failed(
            "agent_failed",
            "turn_limit",
            f"The model came to no result within {self.limits.turns} turns.",
            self.usage,
        )

    def _said(self, *parts: Any) -> ModelRequest:
        return ModelRequest(parts=list(parts))

    def _request(self, runner: asyncio.Runner) -> ModelResponse | Ended:
        """The next response; a request that the provider did not take is tried again, each time as a new one."""
        fault: Fault | None = None
        for attempt in range(self.limits.request_retries + 1):
            if fault is not None and not self._waits(fault, attempt):
                break
            seconds = self.ends_at - time.monotonic()
            if seconds <= 0:
                return self._out_of_time()
            if not self.before_request():
                return Cancelled(self.usage)
            answered = self._send(runner, min(seconds, self.limits.request_seconds))
            if isinstance(answered, ModelResponse):
                return answered
            fault = answered
            if self.ends_at <= time.monotonic():
                return self._out_of_time()
            if fault.again_after is None:
                break
        assert fault is not None
        return self._failed(fault)

    def _waits(self, fault: Fault, attempt: int) -> bool:
        """Wait for another try; ``False`` when that would take too long."""
        assert fault.again_after is not None
        seconds = max(fault.again_after, self.limits.retry_seconds * 2 ** (attempt - 1))
        if seconds > self.limits.retry_wait_seconds or time.monotonic() + seconds > self.ends_at:
            return False
        time.sleep(seconds)
        return True

    def _send(self, runner: asyncio.Runner, seconds: float) -> ModelResponse | Fault:
        settings = ModelSettings(timeout=seconds)
        if self.access.max_tokens is not None:
            settings["max_tokens"] = self.access.max_tokens

        async def within() -> ModelResponse:
            async with asyncio.timeout(seconds):
                return await ask(self.model, self.messages, self.parameters, settings, stream=self.access.stream)

        try:
            response = runner.run(within())
        except Exception as error:
            fault = fault_of(error, self.access)
            logger.warning("a request to %s failed: %s (%s)", self.access.provider, fault.reason, type(error).__name__)
            self._count(requests=int(fault.went_out))
            return fault
        used = response.usage
        self._count(requests=1, input_tokens=_tokens(used.input_tokens), output_tokens=_tokens(used.output_tokens))
        return response

    def _count(self, **used: int) -> None:
        self.usage = self.usage.plus(**used)
        self.report(self.usage)

    def _failed(self, fault: Fault) -> Failed:
        return Failed(MODEL_REQUEST_FAILED, fault.reason, fault.message, self.usage, fault.recovery)

    def _out_of_time(self) -> Failed:
        message = f"The work did not end within {self.limits.seconds:g} s."
        return Failed("step_timeout", "time_limit", message, self.usage)

    # -- what a response asks for --------------------------------------------------------------

    def _act_on(self, response: ModelResponse) -> Ended | None:
        calls = response.tool_calls
        if not calls and response.finish_reason == "content_filter":
            return self._failed(filtered(self.access))
        if not calls:
            return self._text(response)
        returned: list[ToolReturnPart] = []
        for call in calls:
            if self.submission is not None and call.tool_name == self.submission.name:
                ended = self._submitted(call, response)
                if isinstance(ended, (Succeeded, Failed)):
                    return ended
                returned.append(ended)
            elif self.usage.tool_calls >= self.limits.tool_calls:
                message = f"The model made {self.limits.tool_calls} Tool calls and came to no result."
                return Failed("agent_failed", "tool_call_limit", message, self.usage)
            elif call.args_as_dict() != {} and response.finish_reason == "length":
                return self._failed(truncated(self.access))
            else:
                returned.append(self._called(call))
        self.messages.append(self._said(*returned))
        return None

    def _called(self, call: ToolCallPart) -> ToolReturnPart:
        """Run one Tool, or say why not; Tools run one after the other."""
        declared = next((tool for tool in self.program.tools if tool.id == call.tool_name), None)
        arguments = _arguments(call)
        if declared is None:
            known = ", ".join(tool.id for tool in self.program.tools) or "none"
            return _returned(call, f"There is no Tool {call.tool_name!r}. The Tools are: {known}.", failed=True)
        if self.tools_closed:
            return _returned(call, "The Tools are closed: hand in the result.", failed=True)
        if arguments is None:
            return _returned(call, "The arguments are no JSON object. Send them again, whole.", failed=True)
        try:
            output = self.tools[declared.id](arguments)
        except ToolRefused as refused:
            return _returned(call, str(refused), failed=True)
        else:
            self.tools_closed = self.tools_closed or declared.is_end_tool
            return _returned(call, output)
        finally:
            self._count(tool_calls=1)

    def _submitted(self, call: ToolCallPart, response: ModelResponse) -> Succeeded | Failed | ToolReturnPart:
        assert self.submission is not None
        arguments = _arguments(call)
        if arguments is None:
            if response.finish_reason == "length":
                return self._failed(truncated(self.access))
            return self._rejected("Its arguments are no JSON object. Send it again, whole.", call)
        output = self.submission.output(arguments)
        issues = self._issues(output)
        return self._rejected(in_words(issues), call) if issues else Succeeded(output, self.usage)

    def _issues(self, output: Any) -> list[Issue]:
        misfits = find_misfits(self.program.output_schema, output, max_bytes=self.limits.max_value_bytes)
        return misfits or ([] if self.check is None else self.check(output))

    def _rejected(self, why: str, call: ToolCallPart) -> Failed | ToolReturnPart:
        ended = self._repair(why)
        return ended or _returned(call, f"This is not the result that is asked for. {why}", failed=True)

    def _repair(self, why: str) -> Failed | None:
        """Count another chance; the failure when there is none left."""
        self.repairs += 1
        if self.repairs <= self.limits.output_repairs:
            return None
        message = f"The model's result does not fit after {self.limits.output_repairs} corrections: {why}"
        return Failed("agent_output_invalid", "output_invalid", message, self.usage)

    def _text(self, response: ModelResponse) -> Ended | None:
        """A response without calls: the output itself, or something to put right."""
        text = (response.text or "").strip()
        output = self._read(text)
        issues = self._issues(output)
        if not issues and response.finish_reason != "length":
            return Succeeded(output, self.usage)
        if response.finish_reason == "length":
            return self._failed(truncated(self.access))
        if self.submission is None:
            say = "Answer with the result as a text."
        else:
            say = f"Hand in the result by calling {self.submission.name}; a text is not read. {in_words(issues)}"
        ended = self._repair(in_words(issues))
        if ended is None:
            self.messages.append(self._said(UserPromptPart(content=say)))
        return ended

    def _read(self, text: str) -> Any:
        """Models that call no Tools write the JSON itself."""
        if self.program.output_schema is None:
            return text
        try:
            return json_text.parse(text.removeprefix("```json").removesuffix("```").strip())
        except json_text.NotJson:
            return None


def _tokens(told: int) -> int:
    """A provider's number, as far as it can be one: the ledger adds it to a day's."""
    return max(0, min(told, MOST_TOKENS))


def _arguments(call: ToolCallPart) -> dict[str, Any] | None:
    """The arguments as strict JSON; ``None`` when they are no object."""
    if isinstance(call.args, dict):
        return call.args
    try:
        read = json_text.parse(call.args or "{}")
    except json_text.NotJson:
        return None
    return read if isinstance(read, dict) else None


def _returned(call: ToolCallPart, content: Any, *, failed: bool = False) -> ToolReturnPart:
    return ToolReturnPart(
        tool_name=call.tool_name,
        content=content,
        tool_call_id=call.tool_call_id,
        outcome="failed" if failed else "success",
    )
