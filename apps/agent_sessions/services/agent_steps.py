"""Agent Steps of Runs that a model of the service carries out, on the worker that leased the Run (R15, B8)."""

from __future__ import annotations

import datetime as dt
import logging
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

from django.db import connection, connections, transaction

from apps.agent_sessions.domain.programs import program_digest
from apps.agent_sessions.runtime.ended import (
    Access,
    Cancelled,
    Failed,
    Limits,
    Stopped,
    Succeeded,
    ToolFunction,
    ToolRefused,
    Usage,
)
from apps.agent_sessions.runtime.files import ModelsInvalid
from apps.agent_sessions.runtime.models import Model, catalogue
from apps.agent_sessions.runtime.reasoning import reason
from apps.agent_sessions.runtime.tasks import file_tool_id, program_of, read_skill_file
from apps.agent_sessions.services.model_choices import choice_gone, model_choices, resolved_for, resolved_models
from apps.agent_sessions.services.models import access_to
from apps.agent_sessions.services.provider_keys import keyed_providers
from apps.agent_sessions.services.tools import require_fitting
from apps.agent_sessions.services.usage import count_usage
from apps.core import clock, conf
from apps.core.database import surely
from apps.core.errors import ErrorCode, Issue, LoomError
from apps.core.ids import new_id
from apps.ledger.services.events import NewEvent
from apps.looms.authoring.tools import Tool
from apps.looms.domain.graph import AgentStepSpec, LoomGraph
from apps.looms.loaded import AgentTask
from apps.looms.tool_calls import ToolInput, ToolOutput, run_tool
from apps.runs.domain.advancing import check_outcome, step_of
from apps.runs.domain.facts import RunError
from apps.runs.domain.statuses import EventType, RunErrorCode
from apps.runs.services import model_steps
from apps.runs.services.agent_steps import Held, hold_leased, is_still_leased, note
from apps.runs.services.changes import log_json, reads_json
from apps.runs.services.executing import LedgerReader, off_the_loop
from apps.runs.services.leasing import Leased
from apps.runs.services.worker import count_lost_thread

logger = logging.getLogger("loomsvc.models")

T = TypeVar("T")


class ServiceModels:
    """The executor of Runs whose Agent Steps the service's own models carry out."""

    def not_ready_because(self, project_id: uuid.UUID, graph: LoomGraph | None) -> str | None:
        """A file of models that cannot be used, a chosen model that has gone, or a key that the Project lacks (R15)."""
        try:
            found = catalogue()
        except ModelsInvalid as invalid:
            return f"the models of this service cannot be read: {invalid}"
        chosen = model_choices(project_id=project_id)
        wanted = resolved_models(found, chosen) if graph is None else resolved_for(graph, found, chosen)
        gone = next((each for each in wanted if each.model_id not in found.models), None)
        if gone is not None:
            return choice_gone(gone)
        lacking = [model for model in (found.models[each.model_id] for each in wanted) if model.needs_key]
        if not lacking:
            return None
        keyed = keyed_providers(project_id)
        missing = next((model for model in lacking if model.provider not in keyed), None)
        return None if missing is None else _key_missing(missing)

    def open_call(self, leased: Leased, *, now: dt.datetime) -> None:
        """Carry the due Agent Step out, and land what came of it; a lost lease lands nothing."""
        _Step.of(leased).carry_out()

    def cancel_call(self, run_id: uuid.UUID, *, now: dt.datetime) -> list[NewEvent]:
        """Nothing is open beside the Run: its fence has moved, and the model is stopped at the next boundary."""
        return []


def _key_missing(model: Model) -> str:
    return (
        f"the model {model.id} needs a key for {model.provider}, and this Project has none. `list_models` says where "
        "an operator enters one."
    )


def _surely(land: Callable[[], T]) -> T:
    """Land in one transaction, trying again while the database is away: what a model said was paid for.

    Only for what changes nothing when it is done a second time."""

    def attempt() -> T:
        with transaction.atomic():
            return land()

    return surely(attempt, seconds=conf.settings().lease_seconds)


@dataclass
class _Step:
    """One Agent Step in the hands of this thread."""

    leased: Leased
    task: AgentTask
    model: Model
    access: Access
    timeout_seconds: float | None
    call_id: uuid.UUID = field(default_factory=new_id)
    #: The Stage's State as the last Tool left it: nobody else changes it under this lease.
    state: Any = None
    reads: list[dict[str, Any]] = field(default_factory=list)
    tool_calls: int = 0
    usage: Usage = field(default_factory=Usage)
    #: When the latest request went out: what is told of it later belongs to the same day.
    asked_at: dt.datetime = field(default_factory=clock.now)

    @classmethod
    def of(cls, leased: Leased) -> _Step:
        """Find out who reasons.  ``UNAVAILABLE`` when nobody can."""
        where = leased.position
        spec = step_of(leased.loom.graph, where)
        assert isinstance(spec, AgentStepSpec)
        task = leased.loom.agents[where.stage, where.step]
        try:
            found = catalogue()
            chosen = model_choices(project_id=leased.project_id)
            resolved = found.resolve(agent=f"{leased.loom.name}/{task.agent_id}", role=spec.model, chosen=chosen)
            model = found.find(resolved.model_id)
            if model is None:
                raise LoomError(ErrorCode.UNAVAILABLE, f"The Step cannot begin: {choice_gone(resolved)}")
            access = access_to(model, found, project_id=leased.project_id, loom=leased.loom, agent_id=task.agent_id)
        except ModelsInvalid as invalid:
            message = f"The Step cannot begin: the models of this service cannot be read: {invalid}"
            raise LoomError(ErrorCode.UNAVAILABLE, message) from None
        if access.needs_key and access.api_key is None:
            raise LoomError(ErrorCode.UNAVAILABLE, f"The Step cannot begin: {_key_missing(model)}")
        return cls(leased, task, model, access, spec.timeout_seconds, state=leased.state)

    def carry_out(self) -> None:
        program = program_of(self.task, model=self.model.id)
        limits = Limits(max_value_bytes=conf.settings().max_value_bytes)
        if self.timeout_seconds is not None:
            limits = replace(limits, seconds=self.timeout_seconds)
        if not self._open(program_digest(program)):
            return
        where = self.leased.position
        ended = reason(
            program,
            {
                "agent": f"{self.leased.loom.name}/{self.task.agent_id}",
                "cursor": {"stage": where.stage, "step": where.step, "visit": where.visit},
            },
            tools=self._tools(),
            access=self.access,
            limits=limits,
            before_request=self._goes_out,
            report=self._report,
            check=self._issues,
        )
        if isinstance(ended, Cancelled):
            logger.info("Run %s passed on while its model reasoned; nothing of the Step lands", self.leased.run_id)
            return
        self._land(ended)

    # -- the ledger, each time under the fence --------------------------------------------------

    def _open(self, digest: str) -> bool:
        with transaction.atomic():
            held = hold_leased(self.leased)
            if held is None:
                return False
            model_steps.open_model_call(
                held,
                call_id=self.call_id,
                agent_id=self.task.agent_id,
                timeout_seconds=self.timeout_seconds,
                about={"model": self.model.id, "programDigest": digest},
                now=clock.now(),
            )
        return True

    def _goes_out(self) -> bool:
        """Whether the Run is still ours; if so, the request counts, and a lost worker must not send it again."""
        with transaction.atomic():
            held = hold_leased(self.leased)
            if held is not None:
                is_first = model_steps.require_no_repetition(held)
                self.asked_at = clock.now()
                self._count(held, self.usage.plus(requests=1), sessions=int(is_first))
        # Nothing of the ledger is held while a model thinks, a connection neither.
        connection.close()
        return held is not None

    def _report(self, usage: Usage) -> None:
        self.usage = usage

        def land() -> None:
            held = hold_leased(self.leased)
            if held is not None:
                self._count(held, usage)

        _surely(land)

    def _count(self, held: Held, usage: Usage, *, sessions: int = 0) -> None:
        """What is new in ``usage``, on the Run and in the day's: a request that never went out is taken back."""
        added = model_steps.note_usage(held, _camel(usage), now=clock.now())
        delta = Usage(added["requests"], added["inputTokens"], added["outputTokens"], added["toolCalls"])
        project_id, model = self.leased.project_id, self.model.id
        count_usage(project_id=project_id, model=model, usage=delta, now=self.asked_at, sessions=sessions)

    def _land(self, ended: Succeeded | Failed) -> None:
        def land() -> None:
            held = hold_leased(self.leased)
            if held is None:
                logger.warning("a late result of Run %s was refused: its lease had passed on", self.leased.run_id)
                return
            shared: dict[str, Any] = {
                "call_id": self.call_id,
                "reads": self.reads,
                "now": clock.now(),
                "instance_id": self.leased.instance_id,
            }
            if isinstance(ended, Failed):
                error = RunError(RunErrorCode(ended.code.upper()), ended.message)
                model_steps.fail_model_step(held, error, **shared)
                return
            outcome, _ = self._read(ended.output)
            model_steps.complete_model_step(held, self.leased.loom, result=ended.output, outcome=outcome, **shared)

        _surely(land)

    # -- the output -----------------------------------------------------------------------------

    def _read(self, output: Any) -> tuple[str, list[Issue]]:
        outcome, issues = self.task.read_output(output, max_bytes=conf.settings().max_value_bytes)
        return str(outcome), issues

    def _issues(self, output: Any) -> list[Issue]:
        """What keeps an output from being this Step's: its model, or its routes."""
        outcome, issues = self._read(output)
        if issues:
            return issues
        error = check_outcome(self.leased.loom.graph, self.leased.position, outcome)
        return [] if error is None else [Issue("choice", "/outcome", error.message)]

    # -- Tools ----------------------------------------------------------------------------------

    def _tools(self) -> dict[str, ToolFunction]:
        found: dict[str, ToolFunction] = {tool.id: partial(self._call, tool) for tool in self.task.tools}
        found[file_tool_id(self.task)] = partial(read_skill_file, self.task)
        return found

    def _call(self, tool: Tool, arguments: dict[str, Any]) -> Any:
        """Run one Tool; its State change lands with its receipt in one transaction, under the fence (A4)."""
        require_fitting(tool, arguments)
        self.tool_calls += 1
        names = {"callId": str(self.call_id), "toolCallId": str(self.tool_calls), "toolId": tool.id}
        self._note(NewEvent(EventType.TOOL_CALL_STARTED, {**names, "input": arguments}))
        connection.close()
        output = self._run(tool, arguments)
        if output.abandoned:
            count_lost_thread()
        self._note(_settled(names, output), output)
        if output.error is not None:
            raise ToolRefused(output.error)
        self.state = output.state
        self.reads += [read for read in reads_json(output.reads) if read not in self.reads]
        return output.output

    def _note(self, event: NewEvent, output: ToolOutput | None = None) -> None:
        with transaction.atomic():
            held = hold_leased(self.leased)
            if held is None:
                raise Stopped
            changed = output is not None and output.state_changed
            note(held, event, now=clock.now(), state=output.state if output else None, state_changed=changed)

    def _run(self, tool: Tool, arguments: dict[str, Any]) -> ToolOutput:
        assert not connection.in_atomic_block, "a Tool never runs inside a transaction"
        return run_tool(
            ToolInput(
                run_id=str(self.leased.run_id),
                call_id=str(self.call_id),
                tool_call_id=str(self.tool_calls),
                loom=self.leased.loom,
                stage=self.leased.position.stage,
                tool=tool,
                arguments=arguments,
                input=self.leased.input,
                state=self.state,
                results=LedgerReader(self.leased.project_id),
                cancelled=lambda: not off_the_loop(lambda: is_still_leased(self.leased)),
                max_value_bytes=conf.settings().max_value_bytes,
                thread_done=connections.close_all,
            )
        )


def _camel(usage: Usage) -> dict[str, int]:
    return {
        "requests": usage.requests,
        "inputTokens": usage.input_tokens,
        "outputTokens": usage.output_tokens,
        "totalTokens": usage.total_tokens,
        "toolCalls": usage.tool_calls,
    }


def _settled(names: dict[str, str], output: ToolOutput) -> NewEvent:
    """The event that a Tool call ended with, as an external agent's has it (A5)."""
    data: dict[str, Any] = {**names, "status": "completed" if output.error is None else "failed"}
    if output.error is None:
        data["output"] = output.output
    else:
        data["error"] = LoomError(ErrorCode.TOOL_FAILED, output.error).to_wire()
    return NewEvent(EventType.TOOL_CALL_SETTLED, {**data, **({"log": log_json(output.log)} if output.log else {})})
