"""Who can carry out Agent Steps: the protocol that higher apps implement."""

from __future__ import annotations

import datetime as dt
import uuid
from typing import Protocol

from apps.core.caller import AgentExecutor as ExecutorKind
from apps.core.errors import ErrorCode, LoomError
from apps.ledger.services.events import NewEvent
from apps.looms.domain.graph import LoomGraph
from apps.runs.services.leasing import Leased


class AgentExecutor(Protocol):
    """One way of carrying out Agent Steps; registered when Django starts."""

    def not_ready_because(self, project_id: uuid.UUID, graph: LoomGraph | None) -> str | None:
        """What an operator has to configure first, or ``None`` when it is ready; for the Agent Steps of ``graph``,
        or without one for what any Loom needs."""

    def open_call(self, leased: Leased, *, now: dt.datetime) -> None:
        """Open the Agent Step that is due in a ``Leased`` Run, under its fence; a model's is carried out at once.

        ``UNAVAILABLE`` before anything was begun pauses the Run."""

    def cancel_call(self, run_id: uuid.UUID, *, now: dt.datetime) -> list[NewEvent]:
        """The Run, locked, is being cancelled: take its open call from whoever has it; what that came to."""


_executors: dict[ExecutorKind, AgentExecutor] = {}


def register_executor(kind: ExecutorKind, executor: AgentExecutor) -> None:
    """Make ``executor`` the one for Runs under ``kind``."""
    _executors[kind] = executor


def executor_for(kind: ExecutorKind) -> AgentExecutor:
    """The executor of a source policy; ``UNAVAILABLE`` when this service has none (R15)."""
    if kind not in _executors:
        raise LoomError(ErrorCode.UNAVAILABLE, not_ready_message(kind, None))
    return _executors[kind]


def not_ready_message(kind: ExecutorKind, reason: str | None) -> str:
    """Why Agent Steps cannot run under ``kind``."""
    if reason is not None:
        return f"Agent Steps cannot run here: {reason}"
    if kind is ExecutorKind.SERVICE_MODEL:
        return (
            "Agent Steps that start at this Entry need a model of the service, and none is configured. "
            "Started at /mcp, they are done by the agent that is connected there. Looms of Code Steps run."
        )
    return (
        "Agent Steps that start at this Entry need the external agent protocol, which this service does not have yet. "
        "Looms of Code Steps run."
    )


def not_ready_because(kind: ExecutorKind, project_id: uuid.UUID, graph: LoomGraph | None = None) -> str | None:
    """Why Agent Steps (those of ``graph``) cannot run under ``kind`` in a Project, or ``None`` (R15)."""
    executor = _executors.get(kind)
    if executor is None:
        return not_ready_message(kind, None)
    reason = executor.not_ready_because(project_id, graph)
    return None if reason is None else not_ready_message(kind, reason)
