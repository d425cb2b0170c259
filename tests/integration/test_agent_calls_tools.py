"""What an external agent's Tools do, what their receipts say, and when they are refused (A3 to A6, A11, A12)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from apps.agents.models import AgentCall, ToolReceipt
from apps.core import clock
from apps.core.database import database_time_after
from apps.ledger.models import Event
from apps.runs.models import StepAttempt
from apps.runs.services.sweeping import sweep
from tests.conftest import Service
from tests.integration.agent_work import (
    after_half_an_hour,
    code,
    event_types,
    everything,
    lingering,
    paths,
    state_of,
    waiting_agent,
)

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.rule("A3")
def test_the_same_tool_call_answers_again_and_a_changed_one_is_a_conflict(service: Service) -> None:
    agent = waiting_agent(service)
    first = agent.tool("add", "one", line="once")
    again = agent.tool("add", "one", line="once")
    assert again == first
    assert state_of(agent) == {"lines": ["once"]}
    before = everything(agent)
    assert code(agent.tool("add", "one", line="twice")) == "CONFLICT"
    assert code(agent.tool("recall", "one")) == "CONFLICT"
    assert everything(agent) == before


@pytest.mark.rule("A3", "E3")
@pytest.mark.parametrize(
    ("tool", "arguments", "pointers"),
    [
        ("vanish", {}, ["/toolId"]),
        ("add", {}, ["/input/line"]),
        ("add", {"line": 1, "more": True}, ["/input/line", "/input/more"]),
        ("add", {"line": "x", "times": "2"}, ["/input/times"]),
    ],
)
def test_an_undeclared_tool_or_wrong_input_is_refused_with_pointers_and_stores_nothing(
    service: Service, tool: str, arguments: dict[str, Any], pointers: list[str]
) -> None:
    agent = waiting_agent(service)
    before = everything(agent)
    refused = agent.tool(tool, "one", **arguments)
    assert (code(refused), sorted(paths(refused))) == ("INVALID_REQUEST", pointers)
    assert everything(agent) == before
    assert agent.tool("add", "one", line="the id is still free")["receipt"]["status"] == "completed"


@pytest.mark.rule("A4", "A3")
@pytest.mark.parametrize(
    ("tool", "says"),
    [("refuse", "Ask more politely."), ("stumble", "ZeroDivisionError"), ("nonsense", "not what it declares")],
)
def test_a_tool_that_raises_leaves_a_failed_receipt_and_no_state_and_the_agent_goes_on(
    service: Service, tool: str, says: str
) -> None:
    agent = waiting_agent(service)
    failed = agent.tool(tool, "one")
    assert code(failed) == "TOOL_FAILED"
    assert says in failed["error"]["message"]
    assert failed["receipt"]["status"] == "failed"
    assert agent.tool(tool, "one") == failed
    assert state_of(agent) == {"lines": []}
    assert agent.tool("add", line="goes on")["output"] == {"lines": 1}


@pytest.mark.rule("A6")
def test_an_end_tool_that_completed_closes_the_tools_and_the_output_is_still_due(service: Service) -> None:
    agent = waiting_agent(service)
    first = agent.tool("add", "one", line="first")
    assert agent.tool("finish", "end")["receipt"]["status"] == "completed"
    before = everything(agent)
    assert code(agent.tool("add", "two", line="late")) == "TOOLS_CLOSED"
    assert code(agent.tool("finish", "end again")) == "TOOLS_CLOSED"
    assert code(agent.tool("vanish", "two")) == "INVALID_REQUEST", "the Tool is looked at first"
    assert agent.tool("add", "one", line="first") == first
    assert everything(agent) == before
    assert agent.run()["status"] == "waiting"
    assert "receipt" in agent.complete(outcome="written", text="")


@pytest.mark.rule("A5")
def test_the_257th_tool_call_is_refused_and_the_256_known_ones_still_answer(service: Service) -> None:
    agent = waiting_agent(service)
    first = agent.tool("add", "0", line="first")
    template = ToolReceipt.objects.get()
    ToolReceipt.objects.bulk_create(
        ToolReceipt(
            call_id=template.call_id,
            tool_call_id=str(number),
            tool_id="add",
            input_digest=template.input_digest,
            status="completed",
            output={"lines": number},
            created_at=template.created_at,
            settled_at=template.settled_at,
        )
        for number in range(1, 255)
    )
    AgentCall.objects.update(receipts_made=255)
    assert agent.tool("add", "255", line="last")["receipt"]["status"] == "completed"
    assert len(agent.view()["receipts"]) == 256
    before = everything(agent)
    assert code(agent.tool("add", "256", line="one too many")) == "CAPACITY"
    assert everything(agent) == before
    assert agent.tool("add", "0", line="first") == first
    assert agent.tool("add", "254", line="first")["output"] == {"lines": 254}
    assert "receipt" in agent.complete(outcome="written", text="")
    assert agent.tool("add", "0", line="first") == first, "known ones answer after the call closed too"
    assert code(agent.tool("add", "256", line="one too many")) == "CONFLICT"
    after_half_an_hour(agent)
    assert code(agent.tool("add", "0", line="first")) == "CONFLICT"
    assert agent.view()["receipts"] == []


@pytest.mark.rule("A3", "A8")
def test_while_a_tool_runs_its_receipt_is_shown_and_everything_else_is_busy(service: Service, tmp_path: Path) -> None:
    agent, gate, thread, box = lingering(service, tmp_path)
    assert agent.tool("linger", "slow")["receipt"]["status"] == "running"
    assert code(agent.tool("linger", "slow", line="changed")) == "CONFLICT"
    busy = agent.tool("add", "two", line="meanwhile")
    assert (code(busy), busy["error"]["retryable"]) == ("BUSY", True)
    assert code(agent.complete(outcome="written", text="early")) == "BUSY"
    assert agent.view()["receipts"] == [{"toolCallId": "slow", "toolId": "linger", "status": "running"}]
    gate.touch()
    thread.join()
    assert box[0]["receipt"]["status"] == "completed"
    assert agent.tool("linger", "slow") == box[0]
    assert "receipt" in agent.complete(outcome="written", text="now")


@pytest.mark.rule("A9", "A11", "A5", "R11")
@pytest.mark.parametrize("way", ["cancel", "fail", "restart"])
def test_a_tool_that_is_cut_off_by_the_calls_closing_is_indeterminate_and_lands_nothing(
    service: Service, tmp_path: Path, way: str
) -> None:
    agent, gate, thread, box = lingering(service, tmp_path)
    if way == "cancel":
        service.operate("cancel_run", runId=agent.run_id)
    elif way == "fail":
        agent.fail()
    else:
        service.reopen()
    during = agent.tool("linger", "slow")
    assert during["receipt"]["status"] == "indeterminate"
    assert AgentCall.objects.get(pk=agent.call_id).receipts_until is None, "its activity has not settled"
    gate.touch()
    thread.join()
    assert box[0] == during
    assert state_of(agent) == {"lines": []}
    assert AgentCall.objects.get(pk=agent.call_id).receipts_until is not None
    settled = Event.objects.filter(run_id=agent.run_id, type="ToolCallSettled").get()
    assert settled.data["status"] == "indeterminate"


@pytest.mark.rule("A11", "F24")
def test_a_tool_whose_process_died_is_indeterminate_after_its_lease_and_the_agent_goes_on(service: Service) -> None:
    agent = waiting_agent(service)
    agent.tool("add", "one", line="before")
    # What a killed web process leaves behind: a running receipt that nobody renews.
    ToolReceipt.objects.filter(tool_call_id="one").update(
        status="running", settled_at=None, output=None, lease_expires_at=database_time_after(-1)
    )
    assert code(agent.tool("add", "two", line="too early")) == "BUSY"
    sweep(now=clock.now())
    sweep(now=clock.now())
    assert agent.tool("add", "one", line="before")["receipt"]["status"] == "indeterminate"
    assert agent.tool("add", "two", line="goes on")["receipt"]["status"] == "completed"
    assert event_types(agent.run_id).count("ToolCallSettled") == 3  # one, its second life cut off, two
    assert "receipt" in agent.complete(outcome="written", text="")


@pytest.mark.rule("A12")
def test_a_tool_past_its_timeout_fails_and_nothing_of_it_lands(
    service: Service, loom_paths: Path, tmp_path: Path
) -> None:
    import shutil

    from tests.conftest import LOOMS

    copy = loom_paths / "brief"
    shutil.copytree(LOOMS / "assist", copy)
    (copy / "loom.yaml").write_text((copy / "loom.yaml").read_text().replace("loom: assist", "loom: brief"))
    tools = (copy / "tools.py").read_text()
    (copy / "tools.py").write_text(tools.replace('@tool(timeout="20s")', '@tool(timeout="200ms")'))
    gate = tmp_path / "gate"
    agent = waiting_agent(service, "brief", gate=str(gate))
    failed = agent.tool("linger", "slow")
    gate.touch()
    assert (code(failed), failed["receipt"]["status"]) == ("TOOL_FAILED", "failed")
    assert "200ms" in failed["error"]["message"]
    assert state_of(agent) == {"lines": []}
    assert agent.tool("add", line="goes on")["output"] == {"lines": 1}
    assert service.call("status")["service"]["counts"]["lostThreads"] >= 1


@pytest.mark.rule("A4", "M8")
def test_what_tools_read_is_kept_with_the_attempt(service: Service) -> None:
    first = waiting_agent(service)
    first.complete(outcome="written", text="for the next Run")
    service.work()
    agent = waiting_agent(service)
    assert agent.tool("recall")["output"] == "for the next Run"
    agent.complete(outcome="written", text="")
    reads = StepAttempt.objects.get(run_id=agent.run_id, step="write").reads
    artifact = service.call("get_artifact", loomName="assist", stageName="work")["artifact"]
    place = {"loomName": "assist", "stageName": "work"}
    assert reads == [{"artifactId": artifact["artifactId"], "revision": 1, **place}]
