"""How an external agent's call ends: by its output, its failure, the Run, or time (A8 to A10, R11 to R13)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from apps.agents.models import AgentCall, ToolReceipt
from apps.core import clock
from apps.core.database import database_time_after
from apps.ledger.models import Event
from apps.runs.models import Run, StepAttempt
from apps.runs.services.sweeping import sweep
from tests.conftest import Service
from tests.integration.agent_work import (
    Agent,
    after_half_an_hour,
    code,
    event_types,
    everything,
    paths,
    waiting_agent,
)

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.rule("A5", "A10")
def test_what_a_closed_call_answers_before_and_after_its_receipts_leave_the_protocol(service: Service) -> None:
    agent = waiting_agent(service)
    called = agent.tool("add", "one", line="first")
    completed = agent.complete(outcome="written", text="x")
    service.work()
    ended = everything_closed(agent)
    assert agent.tool("add", "one", line="first") == called
    assert agent.complete(outcome="written", text="x") == completed
    refused = {
        "changed input": agent.tool("add", "one", line="changed"),
        "new Tool call": agent.tool("add", "two", line="second"),
        "undeclared Tool": agent.tool("vanish", "three"),
        "another result": agent.complete(outcome="written", text="y"),
        "an invalid result": agent.complete(outcome="written"),
        "a failure": agent.fail(),
        "a claim": agent.claim(),
        "an asset": agent.asset("manners/example.txt"),
    }
    assert {name: code(result) for name, result in refused.items()} == dict.fromkeys(refused, "CONFLICT")
    assert everything_closed(agent) == ended
    after_half_an_hour(agent)
    for result in (agent.tool("add", "one", line="first"), agent.complete(outcome="written", text="x")):
        assert code(result) == "CONFLICT"
    assert agent.view() == {"pending": None, "task": None, "receipts": [], "closedAs": "completed"}
    sweep(now=clock.now())
    assert not ToolReceipt.objects.exists()
    settled = Event.objects.get(run_id=agent.run_id, type="ToolCallSettled").data
    assert (settled["toolCallId"], settled["status"], settled["output"]) == ("one", "completed", {"lines": 1})


def everything_closed(agent: Agent) -> tuple[Any, ...]:
    return agent.run(), agent.view(), event_types(agent.run_id), list(ToolReceipt.objects.order_by("id").values())


@pytest.mark.rule("A8", "E3", "R7")
@pytest.mark.parametrize(
    ("result", "pointers"),
    [
        ({"outcome": "written"}, ["/result/text"]),
        ({"outcome": "written", "text": 1, "extra": 2}, ["/result/text"]),
        ({"outcome": "vanished", "text": "fits the schema"}, ["/result/outcome"]),
        ({"outcome": "Written", "text": "case counts"}, ["/result/outcome"]),
        ([], ["/result"]),
        (None, ["/result"]),
    ],
)
def test_an_output_that_fits_neither_schema_nor_routes_moves_nothing_and_the_call_stays_claimed(
    service: Service, result: Any, pointers: list[str]
) -> None:
    agent = waiting_agent(service)
    before = everything(agent)
    refused = agent.ask("complete_agent_call", ownerToken=agent.token, result=result)
    assert (code(refused), paths(refused)) == ("INVALID_REQUEST", pointers)
    assert agent.ask("complete_agent_call", ownerToken=agent.token, result=result) == refused
    assert everything(agent) == before
    assert "receipt" in agent.complete(outcome="written", text="now it fits")


@pytest.mark.rule("A9", "A10")
def test_an_agent_that_gives_up_fails_the_run_with_its_message(service: Service) -> None:
    agent = waiting_agent(service)
    failed = agent.fail("The wish contradicts itself.")
    assert failed["receipt"]["status"] == "accepted"
    run = agent.run()
    assert (run["status"], run["lastError"]["code"]) == ("failed", "AGENT_FAILED")
    assert run["lastError"]["message"] == "The wish contradicts itself."
    assert "pendingAgentCall" not in run
    assert agent.view()["closedAs"] == "failed"
    assert agent.fail("The wish contradicts itself.") == failed
    assert code(agent.fail("Another reason.")) == "CONFLICT"
    assert code(agent.complete(outcome="written", text="after all")) == "CONFLICT"
    assert event_types(agent.run_id)[-2:] == ["AgentCallClosed", "RunFailed"]


@pytest.mark.rule("A9", "E6")
def test_a_credential_in_an_agents_message_is_not_kept(service: Service) -> None:
    agent = waiting_agent(service)
    agent.fail(f"My token is {agent.token}.")
    assert agent.token not in json.dumps(agent.run())
    assert agent.token not in "".join(json.dumps(event.data) for event in Event.objects.all())


@pytest.mark.rule("A8", "R9", "R10")
def test_a_pause_lets_the_agent_finish_and_the_saved_output_is_routed_by_the_resume(service: Service) -> None:
    agent = waiting_agent(service)
    paused = service.operate("pause_run", runId=agent.run_id)["run"]
    assert (paused["status"], paused["pauseRequested"]) == ("waiting", True)
    assert agent.tool("add", line="goes on")["output"] == {"lines": 1}
    assert "receipt" in agent.complete(outcome="written", text="saved")
    service.work()
    run = agent.run()
    assert (run["status"], run["pauseRequested"], run["cursor"]["step"]) == ("paused", False, "write")
    assert "pendingAgentCall" not in run
    service.operate("resume_run", runId=agent.run_id, expectedRevision=run["revision"])
    service.work()
    assert agent.run()["status"] == "completed"
    assert service.call("get_artifact", loomName="assist", stageName="work")["artifact"]["data"]["text"] == "saved"


@pytest.mark.rule("R7", "A8")
def test_a_step_that_is_visited_again_opens_a_call_of_its_own(service: Service) -> None:
    agent = waiting_agent(service)
    agent.tool("add", "one", line="kept in State")
    agent.complete(outcome="again", text="")
    service.work()
    second = agent.run()["pendingAgentCall"]["id"]
    assert second != agent.call_id
    assert agent.run()["cursor"]["visit"] == 2
    follow_up = Agent(service, agent.caller, agent.run_id, second)
    assert code(Agent(service, agent.caller, agent.run_id, second, agent.token).tool("add", line="x")) == "FORBIDDEN"
    follow_up.claim()
    assert follow_up.tool("add", "one", line="second")["output"] == {"lines": 2}, "toolCallIds belong to their task"


@pytest.mark.rule("R11", "A10", "A11")
def test_cancel_takes_the_call_from_its_agent_at_once(service: Service) -> None:
    agent = waiting_agent(service)
    called = agent.tool("add", "one", line="done before")
    assert service.operate("cancel_run", runId=agent.run_id)["receipt"]["effect"] == "applied"
    run = agent.run()
    assert run["status"] == "cancelled"
    assert "pendingAgentCall" not in run
    assert agent.view()["closedAs"] == "cancelled"
    assert code(agent.tool("add", "two", line="late")) == "CONFLICT"
    assert code(agent.complete(outcome="written", text="late")) == "CONFLICT"
    assert agent.tool("add", "one", line="done before") == called
    assert agent.run() == run
    attempt = StepAttempt.objects.get(run_id=agent.run_id, step="write")
    assert attempt.status == "cancelled"


@pytest.mark.rule("R13")
def test_a_new_instance_interrupts_a_claimed_call_and_lets_an_unclaimed_one_rest(service: Service) -> None:
    agent, unclaimed = waiting_agent(service), waiting_agent(service, claim=False)
    called = agent.tool("add", "one", line="before")
    service.reopen()
    run = agent.run()
    assert (run["status"], run["lastError"]["code"], run["historical"]) == ("failed", "RUN_INTERRUPTED", True)
    assert agent.view()["closedAs"] == "interrupted"
    assert agent.tool("add", "one", line="before") == called
    assert code(agent.tool("add", "two", line="after")) == "CONFLICT"
    assert code(agent.claim()) == "CONFLICT"
    assert StepAttempt.objects.get(run_id=agent.run_id, step="write").status == "indeterminate"
    assert unclaimed.run()["status"] == "waiting"
    unclaimed.claim()
    unclaimed.complete(outcome="written", text="rested")
    service.work()
    assert unclaimed.run()["status"] == "completed"


@pytest.mark.rule("R12")
def test_an_agent_step_past_its_timeout_fails_the_run_whoever_has_claimed_it(
    service: Service, loom_paths: Path
) -> None:
    import shutil

    from tests.conftest import LOOMS

    copy = loom_paths / "hasty"
    shutil.copytree(LOOMS / "assist", copy)
    text = (copy / "loom.yaml").read_text().replace("loom: assist", "loom: hasty")
    (copy / "loom.yaml").write_text(text.replace("agent: writer\n", "agent: writer\n        timeout: 90s\n"))
    agent = waiting_agent(service, "hasty")
    sweep(now=clock.now())
    assert agent.run()["status"] == "waiting"
    AgentCall.objects.filter(pk=agent.call_id).update(deadline_at=database_time_after(-1))
    sweep(now=clock.now())
    run = agent.run()
    assert (run["status"], run["lastError"]["code"]) == ("failed", "STEP_TIMEOUT")
    assert "90 s" in run["lastError"]["message"]
    assert agent.view()["closedAs"] == "failed"
    assert code(agent.complete(outcome="written", text="late")) == "CONFLICT"


@pytest.mark.rule("R17")
def test_retention_takes_a_runs_calls_and_receipts_with_it(service: Service, settings: Any) -> None:
    from dataclasses import replace

    agent = waiting_agent(service)
    agent.tool("add", line="x")
    agent.fail()
    service.reopen()
    Run.objects.update(finished_at=database_time_after(-3 * 86400))
    settings.LOOMSVC = replace(settings.LOOMSVC, retention_days=1)
    sweep(now=clock.now())
    assert (AgentCall.objects.count(), ToolReceipt.objects.count()) == (0, 0)
    assert code(agent.ask("get_agent_call")) == "NOT_FOUND"
