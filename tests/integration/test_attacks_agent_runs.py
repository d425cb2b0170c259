"""Runs around Agent Steps: graphs of every form, pauses and cancels at every moment, clocks, credentials, sweeps."""

from __future__ import annotations

import datetime as dt
import itertools
import json
import uuid
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.access.models import Credential
from apps.access.services.credentials import revoke_credential
from apps.agents.models import AgentCall, ToolReceipt
from apps.core import clock
from apps.core.database import database_time_after
from apps.ledger.models import Event
from apps.runs.models import Run, StepAttempt
from apps.runs.services.sweeping import sweep
from tests.conftest import Service
from tests.integration.agent_work import ANY, Agent, agent_caller, code, make_agent_loom, waiting_agent

pytestmark = pytest.mark.django_db(transaction=True)

#: Two Stages of one Agent Step each, the second without State.
STAGES = """\
loom: relay
title: Relay
description: Agents hand over to agents.
entry: first
stages:
  first:
    state: code:Notes
    initialize: code:begin
    entry: act
    steps:
      act: {agent: doer, output: code:Output, tools: [code:take], on: {done: end, again: act}, max_visits: 2}
    on: {done: second}
  second:
    entry: act
    steps:
      act: {agent: doer, output: code:Last, tools: [code:look], on: {done: end}}
    on: {done: end}
"""
LOOK = """
class Last(BaseModel):
    outcome: Literal["done"]

@tool
def look(call: ToolCall[None]) -> str:
    return repr(call.state)
"""


@pytest.fixture
def relay(loom_paths: Path) -> str:
    make_agent_loom(loom_paths, "relay", ANY + LOOK)
    (loom_paths / "relay/loom.yaml").write_text(STAGES)
    return "relay"


def follow_up(agent: Agent) -> Agent:
    """The agent at the call that its Run waits for now, claimed."""
    pending = agent.run()["pendingAgentCall"]
    following = Agent(agent.service, agent.caller, agent.run_id, pending["id"])
    following.claim()
    return following


@pytest.mark.rule("R2", "A4", "A8", "R10")
def test_agent_steps_alone_make_a_run_with_and_without_state(service: Service, relay: str) -> None:
    first = waiting_agent(service, relay)
    assert first.tool("take", value=1)["output"] == 1
    first.complete(outcome="again")
    service.work()
    again = follow_up(first)
    assert again.tool("take", value=1)["output"] == 2, "State stays within its Stage"
    again.complete(outcome="done")
    service.work()
    second = follow_up(first)
    assert second.view()["task"]["cursor"] == {"stage": "second", "step": "act", "visit": 1}
    assert second.tool("look")["output"] == "None"
    second.complete(outcome="done")
    run = second.run()
    assert (run["status"], run["outcome"], run["boundary"]) == ("completed", "done", 3), "nothing is left for a worker"
    assert code(second.complete(outcome="done")) is None


@pytest.mark.rule("R7", "A8")
def test_an_outcome_that_leads_past_the_loop_limit_is_accepted_and_fails_the_run(service: Service, relay: str) -> None:
    agent = waiting_agent(service, relay)
    agent.complete(outcome="again")
    service.work()
    last = follow_up(agent)
    accepted = last.complete(outcome="again")
    run = last.run()
    assert (accepted["receipt"]["status"], run["status"], run["lastError"]["code"]) == (
        "accepted", "failed", "LOOP_LIMIT",
    )  # fmt: skip
    assert last.view()["closedAs"] == "completed"
    assert last.complete(outcome="again") == accepted


@pytest.mark.rule("R9", "R10", "A8")
@pytest.mark.parametrize("when", ["before the claim", "between Tools"])
def test_a_pause_at_any_moment_of_an_agent_step_takes_effect_when_it_completes(
    service: Service, relay: str, when: str
) -> None:
    agent = waiting_agent(service, relay, claim=when != "before the claim")
    service.operate("pause_run", runId=agent.run_id)
    if when == "before the claim":
        agent.claim()
    assert agent.tool("take", value=1)["output"] == 1
    service.operate("pause_run", runId=agent.run_id)
    agent.complete(outcome="done")
    run = agent.run()
    assert (run["status"], run["boundary"], run["cursor"]["stage"]) == ("paused", 1, "first")
    resumed = service.operate("resume_run", runId=agent.run_id, expectedRevision=run["revision"], steps=1)
    assert resumed["run"]["pauseRequested"] is True
    service.work()
    second = follow_up(agent)
    assert second.run()["pauseRequested"] is True
    second.complete(outcome="done")
    run = second.run()
    assert (run["status"], run["pauseRequested"], run["boundary"]) == ("paused", False, 2)
    service.operate("resume_run", runId=agent.run_id, expectedRevision=run["revision"])
    assert second.run()["status"] == "completed"


@pytest.mark.rule("R11", "R9")
def test_a_run_paused_before_its_agent_step_is_cancelled_without_ever_opening_a_call(
    service: Service, relay: str
) -> None:
    run_id = service.operate("run", caller=agent_caller(service), loomName=relay, input={})["run"]["runId"]
    paused = service.operate("pause_run", runId=run_id)["run"]
    assert paused["status"] == "paused"
    service.work()
    service.operate("cancel_run", runId=run_id)
    service.work()
    assert (service.run(run_id)["status"], AgentCall.objects.count()) == ("cancelled", 0)


@pytest.mark.rule("R14", "A8")
def test_a_run_whose_credential_is_revoked_lets_its_agent_finish_and_pauses_before_what_follows(
    service: Service, relay: str
) -> None:
    agent = waiting_agent(service, relay, claim=False)
    run = Run.objects.select_related("credential").get(pk=agent.run_id)
    agent.caller = agent_caller(service, "another agent")
    agent.claim()
    revoke_credential(public_id=run.credential.public_id, now=clock.now())
    assert agent.tool("take", value=1)["output"] == 1
    assert "receipt" in agent.complete(outcome="done")
    service.work()
    view = agent.run()
    assert (view["status"], view["lastError"]["code"]) == ("paused", "FORBIDDEN")
    service.operate("resume_run", caller=agent.caller, runId=agent.run_id, expectedRevision=view["revision"])
    service.work()
    follow_up(agent).complete(outcome="done")
    assert agent.run()["status"] == "completed"
    assert Credential.objects.get(pk=agent.caller.credential_id).revoked_at is None


@pytest.mark.rule("R16", "F22", "R1", "A3")
def test_numbers_have_no_gaps_and_times_never_go_back_however_clocks_differ(
    service: Service, relay: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = clock.now
    offsets = iter([0, 3600, -7200, 60, -86400, 5, 7200, -3600] * 20)
    monkeypatch.setattr(clock, "now", lambda: real() + dt.timedelta(seconds=next(offsets)))
    agent = waiting_agent(service, relay)
    seen = [agent.run()]
    for number in range(6):
        agent.tool("take", str(number), value=number)
        seen.append(agent.run())
    agent.complete(outcome="done")
    service.work()
    second = follow_up(agent)
    second.fail("No.")
    seen.append(second.run())
    events = list(Event.objects.filter(run_id=agent.run_id).order_by("seq").values_list("seq", "at"))
    assert [seq for seq, _ in events] == list(range(1, len(events) + 1))
    assert [at for _, at in events] == sorted(at for _, at in events)
    for before, after in itertools.pairwise(seen):
        assert before["revision"] < after["revision"]
        assert before["updatedAt"] <= after["updatedAt"]
    for call in AgentCall.objects.all():
        assert call.created_at <= call.claimed_at <= call.closed_at
    for receipt in ToolReceipt.objects.all():
        assert receipt.call.claimed_at <= receipt.created_at <= receipt.settled_at
    for attempt in StepAttempt.objects.exclude(started_at=None):
        assert attempt.started_at <= attempt.ended_at


@pytest.mark.rule("A9", "E6", "K25")
def test_any_message_of_an_agent_that_gives_up_is_kept_and_shown_whole(service: Service) -> None:
    messages = ("\x01\x1b[31m\r\nred\u202e", "\U0010ffff" * 4096, " ", "\n", "'; --", '{"a": 1}')
    for message in messages:
        agent = waiting_agent(service)
        accepted = agent.fail(message)
        assert agent.run()["lastError"]["message"] == message
        assert agent.fail(message) == accepted
    agent = waiting_agent(service)
    for wrong in ("", "x" * 4097, "a\x00", "\udc00", None):
        assert code(agent.ask("fail_agent_call", ownerToken=agent.token, message=wrong)) == "INVALID_REQUEST"
    assert agent.run()["status"] == "waiting"


def statements(job: Any) -> list[str]:
    with CaptureQueriesContext(connection) as captured:
        job()
    return [query["sql"] for query in captured]


@pytest.mark.rule("A3", "A8", "A1")
def test_the_number_of_statements_does_not_grow_with_the_receipts(service: Service) -> None:
    agent, other = waiting_agent(service), waiting_agent(service)

    def each(agent: Agent, name: str) -> dict[str, int]:
        return {
            "tool": len(statements(lambda: agent.tool("add", name, line="x"))),
            "again": len(statements(lambda: agent.tool("add", name, line="x"))),
            "view": len(statements(agent.view)),
            "claim": len(statements(agent.claim)),
        }

    each(agent, "warm")
    first = each(agent, "first")
    for number in range(20):
        agent.tool("add", str(number), line="x")
    assert each(agent, "last") == first
    assert first["again"] <= 3
    assert first["view"] <= 2
    assert first["tool"] <= 26, first
    other.tool("add", line="x")
    few = len(statements(lambda: other.complete(outcome="written", text="")))
    assert len(statements(lambda: agent.complete(outcome="written", text=""))) == few <= 15


def overdue(agent: Agent, minutes: int) -> None:
    AgentCall.objects.filter(pk=agent.call_id).update(timeout_seconds=1, deadline_at=database_time_after(-60 * minutes))


@pytest.mark.rule("R12", "A10")
@pytest.mark.parametrize("late", ["claim", "tool", "complete", "fail"])
def test_work_past_the_steps_timeout_is_refused_and_ends_it_without_waiting_for_a_sweep(
    service: Service, late: str
) -> None:
    agent = waiting_agent(service)
    known = agent.tool("add", "one", line="x")
    overdue(agent, 1)
    work = {
        "claim": agent.claim,
        "tool": lambda: agent.tool("add", "two", line="y"),
        "complete": lambda: agent.complete(outcome="written", text=""),
        "fail": lambda: agent.fail("late"),
    }
    refused = work[late]()
    assert (code(refused), refused["error"]["details"]) == ("CONFLICT", {"closedAs": "failed"})
    run = agent.run()
    assert (run["status"], run["lastError"]["code"]) == ("failed", "STEP_TIMEOUT")
    assert agent.view()["closedAs"] == "failed"
    assert agent.tool("add", "one", line="x") == known
    sweep(now=clock.now())
    assert agent.run() == run


@pytest.mark.rule("R12", "A11", "F24")
def test_one_row_that_cannot_be_swept_holds_up_no_other(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    from apps.agents.services import closing, sweeping

    agents = [waiting_agent(service) for _ in range(4)]
    for number, agent in enumerate(agents[:2]):
        overdue(agent, 2 - number)
    for number, agent in enumerate(agents[2:]):
        agent.tool("add", "cut", line="x")
        expires = database_time_after(-60 * (2 - number))
        ToolReceipt.objects.filter(call_id=agent.call_id).update(status="running", lease_expires_at=expires)
    stuck = {uuid.UUID(agents[0].run_id), uuid.UUID(agents[2].run_id)}
    for module in (sweeping, closing):
        name = "hold_waiting" if module is sweeping else "hold_open_call"
        original = getattr(module, name)

        def refuse(*arguments: Any, original: Any = original) -> Any:
            if stuck & set(arguments):
                raise RuntimeError("this row cannot be swept")
            return original(*arguments)

        monkeypatch.setattr(module, name, refuse)
    sweep(now=clock.now())
    assert [agent.run()["status"] for agent in agents] == ["waiting", "failed", "waiting", "waiting"]
    assert agents[3].view()["receipts"][0]["status"] == "indeterminate"
    stuck.clear()
    sweep(now=clock.now())
    assert agents[0].run()["status"] == "failed"
    assert agents[2].view()["receipts"][0]["status"] == "indeterminate"


@pytest.mark.rule("R12", "A5", "A11")
def test_a_sweep_of_many_rows_ends_each_once(service: Service) -> None:
    agents = [waiting_agent(service) for _ in range(6)]
    for agent in agents:
        agent.tool("add", "one", line="x")
        overdue(agent, 1)
    ToolReceipt.objects.update(status="running", lease_expires_at=database_time_after(-5))
    sweep(now=clock.now())
    sweep(now=clock.now())
    for agent in agents:
        types = list(Event.objects.filter(run_id=agent.run_id).order_by("seq").values_list("type", "data"))
        settled = [data["status"] for kind, data in types if kind == "ToolCallSettled"]
        assert settled == ["completed", "indeterminate"]
        assert [kind for kind, _ in types].count("AgentCallClosed") == 1
        assert json.loads(json.dumps(agent.run()))["lastError"]["code"] == "STEP_TIMEOUT"
    assert not AgentCall.objects.filter(receipts_until=None).exists()
