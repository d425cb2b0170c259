"""Agent calls under attack: locks taken crosswise, COMMITs that are lost, Tools that come back late."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.db import OperationalError, connection

from apps.agents.models import AgentCall, ToolReceipt
from apps.agents.services import closing, completing, leases, tool_calls
from apps.core import clock
from apps.core.database import database_now, database_time_after
from apps.runs.models import Run
from apps.runs.services import agent_steps
from apps.runs.services.sweeping import sweep
from tests.conftest import Service
from tests.integration.agent_work import agent_caller, begun_tool, lingering, state_of, waiting_agent
from tests.integration.attacking import (
    at_once,
    check_run,
    die_once,
    end_backend,
    only_on_postgresql,
    wait_until_blocked,
)

pytestmark = pytest.mark.django_db(transaction=True)


def first_time(real: Callable[..., Any], also: Callable[[], None]) -> Callable[..., Any]:
    """``real``, and after its first call ``also``."""
    done: list[bool] = []

    def both(*arguments: Any, **keywords: Any) -> Any:
        result = real(*arguments, **keywords)
        if not done:
            done.append(True)
            also()
        return result

    return both


@pytest.mark.rule("FR-G5", "F13", "R13", "A11")
def test_the_leases_of_tools_and_the_opening_of_an_instance_lock_receipts_in_one_order(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    only_on_postgresql()
    agents = sorted((waiting_agent(service) for _ in range(2)), key=lambda agent: agent.run_id)
    # The Tool of the later Run began first.
    for agent in reversed(agents):
        begun_tool(agent, "one", line="x")
    receipts = list(ToolReceipt.objects.values_list("id", flat=True))
    one_is_closed = threading.Event()

    def meanwhile() -> None:
        one_is_closed.set()
        wait_until_blocked()

    def renew() -> None:
        assert one_is_closed.wait(10)
        assert leases.renew(receipts) == 2

    monkeypatch.setattr(closing, "_end", first_time(closing._end, meanwhile))
    assert at_once(service.reopen, renew) == []
    assert [agent.view()["closedAs"] for agent in agents] == ["interrupted"] * 2


@pytest.mark.rule("A5", "A11")
def test_a_tool_that_comes_back_late_does_not_let_receipts_go_while_another_one_is_outstanding(
    service: Service, tmp_path: Path
) -> None:
    agent, gate, thread, box = lingering(service, tmp_path)
    ToolReceipt.objects.update(lease_expires_at=database_time_after(-1))
    sweep(now=clock.now())
    begun_tool(agent, "two", line="x")
    service.operate("cancel_run", runId=agent.run_id)
    gate.touch()
    thread.join()
    assert box[0]["receipt"]["status"] == "indeterminate"
    assert AgentCall.objects.get().receipts_until is None, "the second Tool has not settled"
    ToolReceipt.objects.filter(tool_call_id="two").update(lease_expires_at=database_time_after(-1))
    sweep(now=clock.now())
    assert AgentCall.objects.filter(receipts_until__gt=database_now()).exists()
    check_run(service, agent.run_id)


@pytest.mark.rule("A3", "A4", "F10", "F11")
@pytest.mark.parametrize("before", [True, False], ids=["not committed", "committed"])
def test_a_tool_whose_settling_goes_unanswered_settles_once_and_its_agent_gets_the_output(
    service: Service, monkeypatch: pytest.MonkeyPatch, before: bool
) -> None:
    agent = waiting_agent(service)
    monkeypatch.setattr(tool_calls, "_settle", die_once(tool_calls._settle, before=before))
    called = agent.tool("add", "one", line="once")
    assert (called["receipt"]["status"], called["output"]) == ("completed", {"lines": 1})
    assert agent.tool("add", "one", line="once") == called
    assert state_of(agent) == {"lines": ["once"]}
    check_run(service, agent.run_id)


CUTS: dict[str, tuple[Any, str]] = {
    "claim": (agent_steps, "claimed"),
    "begin a Tool": (tool_calls, "started_event"),
    "settle a Tool": (tool_calls, "settled_event"),
    "complete": (completing, "complete_agent_step"),
    "fail": (completing, "fail_agent_step"),
}


@pytest.mark.rule("A2", "A3", "A8", "A9", "F10", "F11")
@pytest.mark.parametrize("what", CUTS)
def test_a_connection_that_is_cut_before_its_commit_leaves_nothing_and_the_same_request_goes_through(
    service: Service, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    only_on_postgresql()
    agent = waiting_agent(service, claim=what != "claim")
    requests: dict[str, Callable[[], dict[str, Any]]] = {
        "claim": agent.claim,
        "complete": lambda: agent.complete(outcome="written", text="x"),
        "fail": agent.fail,
    }
    request = requests.get(what, lambda: agent.tool("add", "one", line="once"))
    before = agent.run()
    module, name = CUTS[what]
    monkeypatch.setattr(module, name, first_time(getattr(module, name), end_backend))
    if what == "settle a Tool":
        assert request()["receipt"]["status"] == "completed", "the process that ran it tries again by itself"
    else:
        with pytest.raises(OperationalError):
            request()
        connection.close()
        assert agent.run() == before
        check_run(service, agent.run_id)
    applied = request()
    assert "error" not in applied
    assert request() == applied
    check_run(service, agent.run_id)
    if what.endswith("Tool"):
        assert state_of(agent) == {"lines": ["once"]}


@pytest.mark.rule("A3", "A11", "F11")
def test_a_tool_whose_beginning_was_stored_and_not_heard_of_never_runs(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = waiting_agent(service)
    monkeypatch.setattr(tool_calls, "_start", die_once(tool_calls._start, before=False))
    with pytest.raises(OperationalError):
        agent.tool("add", "one", line="once")
    assert agent.tool("add", "one", line="once")["receipt"]["status"] == "running"
    assert agent.tool("add", "two", line="twice")["error"]["code"] == "BUSY"
    ToolReceipt.objects.update(lease_expires_at=database_time_after(-1))
    sweep(now=clock.now())
    assert agent.tool("add", "one", line="once")["receipt"]["status"] == "indeterminate"
    assert agent.tool("add", "two", line="twice")["output"] == {"lines": 1}
    check_run(service, agent.run_id)


@pytest.mark.rule("R13", "F11")
@pytest.mark.parametrize("before", [True, False], ids=["not committed", "committed"])
def test_a_call_whose_opening_goes_unanswered_is_open_once(
    service: Service, monkeypatch: pytest.MonkeyPatch, before: bool
) -> None:
    from apps.runs.services import worker

    monkeypatch.setattr(worker, "open_agent_step", die_once(agent_steps.open_agent_step, before=before))
    run_id = service.operate("run", caller=agent_caller(service), loomName="agentic", input={})["run"]["runId"]
    service.work()
    Run.objects.filter(status="running").update(lease_expires_at=database_time_after(-1))
    sweep(now=clock.now())
    service.work()
    assert service.run(run_id)["status"] == "waiting"
    assert AgentCall.objects.count() == 1
    check_run(service, run_id)
