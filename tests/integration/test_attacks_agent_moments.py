"""What comes between: a sweep, a cancel, a lost worker or the same request again, in the middle of an agent's."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.db import OperationalError

from apps.agents.models import AgentCall, ToolReceipt
from apps.agents.services import completing, tool_calls
from apps.core import clock
from apps.core.database import database_time_after
from apps.ledger.models import Event
from apps.runs.models import Run
from apps.runs.services.agent_steps import open_agent_step
from apps.runs.services.executing import execute
from apps.runs.services.landing import SegmentResult, land
from apps.runs.services.sweeping import sweep
from tests.conftest import Service
from tests.integration.agent_work import Agent, agent_caller, code, lingering, make_agent_loom, waiting_agent
from tests.integration.attacking import at_once, lease

pytestmark = pytest.mark.django_db(transaction=True)


def lines_of(agent: Agent) -> list[str]:
    run = Run.objects.select_related("state").get(pk=agent.run_id)
    assert run.state is not None
    return list(run.state.data["lines"])


@pytest.mark.rule("A11")
def test_a_sweep_leaves_a_tool_alone_whose_lease_is_kept(service: Service, tmp_path: Path) -> None:
    agent, gate, thread, box = lingering(service, tmp_path)
    sweep(now=clock.now())
    assert agent.view()["receipts"][0]["status"] == "running"
    gate.touch()
    thread.join()
    assert box[0]["receipt"]["status"] == "completed"
    assert lines_of(agent) == ["lingered"]


@pytest.mark.rule("A11", "A4")
def test_a_tool_that_returns_after_its_lease_was_ended_lands_nothing_and_the_agent_has_gone_on(
    service: Service, tmp_path: Path
) -> None:
    agent, gate, thread, box = lingering(service, tmp_path)
    ToolReceipt.objects.update(lease_expires_at=database_time_after(-1))
    sweep(now=clock.now())
    assert agent.tool("add", "next", line="went on")["output"] == {"lines": 1}
    gate.touch()
    thread.join()
    assert box[0]["receipt"]["status"] == "indeterminate"
    assert box[0] == agent.tool("linger", "slow")
    assert lines_of(agent) == ["went on"]
    settled = Event.objects.filter(run_id=agent.run_id, type="ToolCallSettled").order_by("seq")
    assert [event.data["status"] for event in settled] == ["indeterminate", "completed"]


@pytest.mark.rule("A11")
def test_a_tool_that_takes_longer_than_a_lease_is_kept_by_its_renewal(service: Service, settings: Any) -> None:
    settings.LOOMSVC = replace(settings.LOOMSVC, lease_seconds=1.0)
    agent = waiting_agent(service)
    box: list[Any] = []
    done = threading.Event()

    def work() -> None:
        box.append(agent.tool("linger", "slow", seconds=3))
        done.set()

    def sweeps() -> None:
        while not done.wait(0.2):
            sweep(now=clock.now())

    assert at_once(work, sweeps) == []
    assert box[0]["receipt"]["status"] == "completed"


@pytest.mark.rule("A3", "K5")
def test_the_same_tool_call_sent_by_many_at_once_runs_once(service: Service) -> None:
    agent = waiting_agent(service)
    answers: list[dict[str, Any]] = []
    assert at_once(*[lambda: answers.append(agent.tool("add", "one", line="x"))] * 6) == []
    assert {answer["receipt"]["status"] for answer in answers} <= {"running", "completed"}
    assert lines_of(agent) == ["x"]
    assert (ToolReceipt.objects.count(), AgentCall.objects.get().receipts_made) == (1, 1)


@pytest.mark.rule("A3", "K5")
@pytest.mark.parametrize("line", ["x", "changed"])
def test_the_same_tool_call_that_overtakes_another_is_the_one_that_ran(
    service: Service, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    agent = waiting_agent(service)
    original = tool_calls.load_release
    overtaking: list[dict[str, Any]] = []

    def overtaken(digest: str) -> Any:
        monkeypatch.setattr(tool_calls, "load_release", original)
        overtaking.append(agent.tool("add", "one", line="x"))
        return original(digest)

    monkeypatch.setattr(tool_calls, "load_release", overtaken)
    late = agent.tool("add", "one", line=line)
    assert [late] == overtaking if line == "x" else code(late) == "CONFLICT"
    assert (lines_of(agent), ToolReceipt.objects.count()) == (["x"], 1)


@pytest.mark.rule("A3", "A10", "R11")
def test_a_call_that_closes_while_a_tool_call_is_being_checked_runs_nothing(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = waiting_agent(service)
    original = tool_calls.load_release

    def cancelled_meanwhile(digest: str) -> Any:
        service.operate("cancel_run", runId=agent.run_id)
        return original(digest)

    monkeypatch.setattr(tool_calls, "load_release", cancelled_meanwhile)
    assert code(agent.tool("add", line="x")) == "CONFLICT"
    assert ToolReceipt.objects.count() == 0
    assert lines_of(agent) == []


@pytest.mark.rule("A8", "A9", "A10")
@pytest.mark.parametrize("meanwhile", ["the same", "another", "given up", "cancelled"])
def test_of_two_closings_at_once_the_first_stands(
    service: Service, monkeypatch: pytest.MonkeyPatch, meanwhile: str
) -> None:
    agent = waiting_agent(service)
    first = {
        "the same": lambda: agent.complete(outcome="written", text="x"),
        "another": lambda: agent.complete(outcome="again", text="y"),
        "given up": lambda: agent.fail("first"),
        "cancelled": lambda: service.operate("cancel_run", runId=agent.run_id),
    }[meanwhile]
    original = completing.load_release
    calls = iter([first])

    def closed_meanwhile(digest: str) -> Any:
        for close in calls:
            assert "error" not in close()
        return original(digest)

    monkeypatch.setattr(completing, "load_release", closed_meanwhile)
    late = agent.complete(outcome="written", text="x")
    assert code(late) == (None if meanwhile == "the same" else "CONFLICT")
    types = list(Event.objects.filter(run_id=agent.run_id).values_list("type", flat=True))
    assert types.count("AgentCallClosed") == 1


@pytest.mark.rule("A6")
def test_an_end_tool_that_failed_leaves_the_tools_open(service: Service, loom_paths: Path) -> None:
    tools = """
@tool
def finish(call: ToolCall[Notes], well: bool) -> str:
    if not well:
        raise ToolError("Not yet.")
    return "finished"
"""
    loom = make_agent_loom(loom_paths, "ending", tools, tools=("finish",), step="end_tool: code:finish")
    agent = waiting_agent(service, loom)
    assert code(agent.tool("finish", well=False)) == "TOOL_FAILED"
    assert agent.tool("finish", well=True)["output"] == "finished"
    assert code(agent.tool("finish", well=True)) == "TOOLS_CLOSED"


@pytest.mark.rule("A4", "A11", "F24")
def test_a_tool_that_returns_while_the_ledger_is_away_lands_once_it_is_back(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = waiting_agent(service)
    original = tool_calls._settle
    trouble = iter(["before", "after"])

    def settle(*arguments: Any) -> ToolReceipt:
        when = next(trouble, None)
        if when == "before":
            raise OperationalError("the ledger is away")
        receipt = original(*arguments)
        if when == "after":
            raise OperationalError("nobody hears of the COMMIT")
        return receipt

    monkeypatch.setattr(tool_calls, "_settle", settle)
    assert agent.tool("add", "one", line="x")["output"] == {"lines": 1}
    assert lines_of(agent) == ["x"]
    settled = Event.objects.filter(run_id=agent.run_id, type="ToolCallSettled")
    assert [event.data["status"] for event in settled] == ["completed"]


@pytest.mark.rule("R17", "A11")
def test_a_tool_whose_run_retention_has_removed_ends_quietly(service: Service, settings: Any, tmp_path: Path) -> None:
    agent, gate, thread, box = lingering(service, tmp_path)
    service.reopen()
    Run.objects.update(finished_at=database_time_after(-3 * 86400))
    settings.LOOMSVC = replace(settings.LOOMSVC, retention_days=1)
    sweep(now=clock.now())
    assert not Run.objects.filter(pk=agent.run_id).exists()
    gate.touch()
    thread.join()
    assert box[0]["receipt"]["status"] == "running", "what it was when it began; nobody is left to tell"
    assert (AgentCall.objects.count(), ToolReceipt.objects.count()) == (0, 0)
    assert code(agent.tool("linger", "slow")) == "NOT_FOUND"


@pytest.mark.rule("R6", "R13")
def test_the_opening_of_a_call_is_repeated_after_lost_workers_three_times_and_a_lost_lease_opens_nothing(
    service: Service, loom_paths: Path
) -> None:
    loom = make_agent_loom(loom_paths, "opens")
    run_id = service.operate("run", caller=agent_caller(service), loomName=loom, input={})["run"]["runId"]
    initializer = lease(service)
    land([SegmentResult(initializer, execute(initializer))], now=clock.now())
    opening = lease(service)
    for lost in range(3):
        assert service.run(run_id)["status"] == "running"
        Run.objects.update(lease_expires_at=database_time_after(-1))
        sweep(now=clock.now())
        open_agent_step(opening, now=clock.now())
        assert AgentCall.objects.count() == 0, "the lease has passed on"
        if lost < 2:
            opening = lease(service)
    run = service.run(run_id)
    assert (run["status"], run["lastError"]["code"]) == ("failed", "RUN_INTERRUPTED")
