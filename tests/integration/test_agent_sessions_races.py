"""Background agents under many hands at once, and under any order of events (B9)."""

from __future__ import annotations

import datetime as dt
import threading
import uuid
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from background_agents import Client
from django.db import connections
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from apps.agent_sessions.models import AgentSession, ModelUsage
from apps.agent_sessions.runtime.ended import Cancelled, Failed, Succeeded, Usage
from apps.agent_sessions.services import leasing, working
from apps.core import clock
from apps.runs.services import worker
from apps.runs.services.sweeping import sweep
from tests.conftest import Service

ENDED = {"succeeded", "failed", "cancelled"}


@pytest.mark.rule("B9", "B3")
def test_many_workers_carry_each_agent_out_once(
    service: Service, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    settings.LOOMSVC = replace(settings.LOOMSVC, agents_running=3)
    client = Client(service)
    sent: Counter[str] = Counter()
    running: list[int] = []
    together = threading.Lock()

    def play(program: Any, input: Any, *, before_request: Any, report: Any, **_: Any) -> Any:
        assert before_request()
        with together:
            sent[input] += 1
            running.append(AgentSession.objects.filter(state="running").count())
        report(Usage(1, 2, 3))
        return Succeeded(input, Usage(1, 2, 3))

    monkeypatch.setattr(working, "reason", play)
    for number in range(8):
        client.start(input=f"agent {number}")
    worker.begin(uuid.UUID(service.instance_id))

    def work() -> None:
        try:
            for _ in range(8):
                working.work()
        finally:
            connections.close_all()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sent == {f"agent {number}": 1 for number in range(8)}
    assert max(running) <= 3
    used = ModelUsage.objects.get()
    assert (used.sessions, used.requests, used.output_tokens) == (8, 8, 24)


class Agents(RuleBasedStateMachine):
    """One agent; a worker that takes it, sends, reports, is lost or ends; clients that cancel; restarts."""

    service: Service

    @initialize()
    def start(self) -> None:
        AgentSession.objects.all().delete()
        ModelUsage.objects.all().delete()
        self.client = Client(self.service)
        self.client.start()
        self.leased: leasing.Leased | None = None
        #: Requests that went out, by any worker at any time.
        self.sent = 0
        self.used = Usage()
        self.cancelled = False
        self.sent_when_cancelled = 0
        self.end: dict[str, Any] | None = None

    @property
    def state(self) -> str:
        return str(self.client.status()["state"])

    @rule()
    def take(self) -> None:
        taken = leasing.take_lease(owner="w", instance_id=uuid.UUID(self.service.instance_id), now=clock.now())
        if taken is not None:
            assert self.sent == 0, "what has sent something is never begun again"
            self.leased = taken

    @precondition(lambda self: self.leased is not None)
    @rule()
    def send(self) -> None:
        if leasing.note_request(self.leased, usage=self.used, now=clock.now()):
            self.sent += 1
            self.used = self.used.plus(requests=1)

    @precondition(lambda self: self.leased is not None)
    @rule()
    def hear(self) -> None:
        self.used = Usage(self.sent, 10 * self.sent, self.sent)
        leasing.note_usage(self.leased, self.used)

    @precondition(lambda self: self.leased is not None)
    @rule(ending=st.sampled_from([Succeeded, Failed, Cancelled]))
    def land(self, ending: Any) -> None:
        ended = {
            Succeeded: Succeeded("out", self.used),
            Failed: Failed("agent_failed", "turn_limit", "No.", self.used),
            Cancelled: Cancelled(self.used),
        }[ending]
        working._land(self.leased, ended)
        self.leased = None

    @rule()
    def cancel(self) -> None:
        if not self.cancelled and self.state not in ENDED:
            self.cancelled, self.sent_when_cancelled = True, self.sent
        self.client.cancel()

    @rule()
    def lose(self) -> None:
        AgentSession.objects.filter(state="running").update(lease_expires_at=clock.now() - dt.timedelta(seconds=1))
        sweep(now=clock.now())

    @rule()
    def restart(self) -> None:
        self.service.reopen()

    @invariant()
    def is_honest(self) -> None:
        if not hasattr(self, "client"):
            return
        status = self.client.status()
        assert (status["output"] is not None) == (status["state"] == "succeeded")
        assert (status["error"] is not None) == (status["state"] == "failed")
        if self.cancelled:
            assert status["state"] != "succeeded"
            assert self.sent == self.sent_when_cancelled, "nothing is sent after a cancel"
        counted = ModelUsage.objects.first()
        if status["state"] in ENDED:
            assert status["usage"]["requests"] == self.sent
            assert counted is not None and (counted.sessions, counted.requests) == (1, self.sent)
            assert self.end in (None, status), "an end is for good"
            self.end = status
        else:
            assert counted is None and self.end is None


@pytest.mark.rule("B9", "B3")
def test_whatever_happens_an_agent_is_honest_and_counted_once(service: Service) -> None:
    Agents.service = service
    run_state_machine_as_test(
        Agents,
        settings=settings(
            max_examples=12,
            stateful_step_count=12,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            database=None,
        ),
    )
