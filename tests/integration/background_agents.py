"""A client of background agents as tests play it: it starts one, polls it, and lets a worker work in this thread."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from apps.agent_sessions.runtime.ended import Cancelled, Succeeded, Usage
from apps.agent_sessions.services import working
from apps.runs.services import worker
from tests.conftest import Service


@dataclass
class Client:
    """Calls of one Project, and the proof of the agent that was started last."""

    service: Service
    caller: Any = None
    proof: dict[str, str] | None = None

    def start(self, **arguments: Any) -> dict[str, Any]:
        started = self.service.call("run_agent", self.caller, **{"model": "offline", "input": "hello", **arguments})
        if "error" not in started:
            self.proof = {name: started[name] for name in ("id", "session_secret")}
        return started

    def status(self, **proof: Any) -> dict[str, Any]:
        return self.service.call("agent_status", self.caller, **(proof or self.proof or {}))

    def cancel(self, **proof: Any) -> dict[str, Any]:
        return self.service.call("cancel_agent", self.caller, **(proof or self.proof or {}))

    def work(self) -> None:
        """One turn of a worker."""
        worker.begin(uuid.UUID(self.service.instance_id))
        working.work()


def without_request_id(answer: dict[str, Any]) -> dict[str, Any]:
    """An error's envelope without what differs each time."""
    return {name: value for name, value in answer.items() if name != "request_id"}


@pytest.fixture
def client(service: Service) -> Client:
    return Client(service)


def used(*usages: Usage) -> Callable[..., Any]:
    """A runtime that sends one request for each usage, and then succeeds."""

    def play(program: Any, input: Any, *, before_request: Any, report: Any, **_: Any) -> Any:
        for usage in usages:
            if not before_request():
                return Cancelled(usage)
            report(usage)
        return Succeeded("done", usages[-1])

    return play
