"""Two that meet at one agent call, seeded: of all that each may be told, only some pairs are legal (F21)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from apps.agents.models import AgentCall, ToolReceipt
from apps.agents.services import tool_calls
from apps.core import clock
from apps.core.database import database_time_after
from apps.runs.models import Run
from apps.runs.services.sweeping import sweep
from tests.chances import chance, rounds
from tests.conftest import Service
from tests.integration.agent_work import Agent, agent_caller, begun_tool, state_of, waiting_agent
from tests.integration.attacking import check_run, meet

pytestmark = pytest.mark.django_db(transaction=True)

ROUNDS = rounds(3)

#: What the two may be told, and how the call then stands; ``""`` is open.
LEGAL: dict[str, dict[tuple[str, str], str]] = {
    "claim/claim": {("claimed", "CONFLICT"): "", ("CONFLICT", "claimed"): ""},
    "claim/same claim": {("claimed", "claimed"): ""},
    "claim/cancel": {("claimed", "applied"): "cancelled", ("CONFLICT", "applied"): "cancelled"},
    "claim/opening": {("claimed", "done"): "either", ("UNAVAILABLE", "done"): ""},
    "complete/complete": {("accepted", "accepted"): "completed"},
    "complete/other result": {("accepted", "CONFLICT"): "completed", ("CONFLICT", "accepted"): "completed"},
    "complete/fail": {("accepted", "CONFLICT"): "completed", ("CONFLICT", "accepted"): "failed"},
    "complete/cancel": {("accepted", "applied"): "completed", ("CONFLICT", "applied"): "cancelled"},
    "complete/pause": {("accepted", "applied"): "completed"},
    "complete/timeout": {("accepted", "done"): "completed", ("CONFLICT", "done"): "failed"},
    "complete/opening": {
        ("accepted", "done"): "completed",
        ("CONFLICT", "done"): "interrupted",
        ("UNAVAILABLE", "done"): "interrupted",
    },
    "tool/complete": {
        ("completed", "accepted"): "completed",
        ("completed", "BUSY"): "",
        ("CONFLICT", "accepted"): "completed",
    },
    "tool/cancel": {
        ("completed", "applied"): "cancelled",
        ("indeterminate", "applied"): "cancelled",
        ("CONFLICT", "applied"): "cancelled",
    },
    "tool/same tool": {("completed", "completed"): "", ("completed", "running"): "", ("running", "completed"): ""},
    "tool/other tool": {("completed", "completed"): "", ("completed", "BUSY"): "", ("BUSY", "completed"): ""},
    "settling/sweep": {("completed", "done"): "", ("indeterminate", "done"): ""},
    "settling/opening": {("completed", "done"): "interrupted", ("indeterminate", "done"): "interrupted"},
}

RESULT = {"outcome": "written", "text": "x"}


def contender(agent: Agent, what: str) -> Callable[[], Any]:
    """What one of the two does."""
    service = agent.service
    match what:
        case "claim" | "same claim":
            return agent.claim
        case "complete":
            return lambda: agent.complete(**RESULT)
        case "other result":
            return lambda: agent.complete(**{**RESULT, "text": "y"})
        case "fail":
            return agent.fail
        case "tool" | "same tool":
            return lambda: agent.tool("add", "one", line="one")
        case "other tool":
            return lambda: agent.tool("add", "two", line="two")
        case "cancel" | "pause":
            return lambda: service.operate(f"{what}_run", runId=agent.run_id)
        case "opening":
            return service.reopen
        case "settling":
            started, output = begun_tool(agent, "one", line="one")
            return lambda: tool_calls._settle(started, output)
        case "timeout":
            AgentCall.objects.filter(pk=agent.call_id).update(deadline_at=database_time_after(-1), timeout_seconds=1)
        case "sweep":
            ToolReceipt.objects.filter(call_id=agent.call_id).update(lease_expires_at=database_time_after(-1))
    return lambda: sweep(now=clock.now())


def told(answer: Any) -> str:
    """What a contender was told, in one word; a refusal says why in words too."""
    if isinstance(answer, ToolReceipt):
        return str(answer.status)
    if not isinstance(answer, dict):
        return "done"
    if "error" in answer and answer.get("receipt", {}).get("status") != "indeterminate":
        assert len(answer["error"]["message"]) > 20, answer
        return str(answer["error"]["code"])
    if "ownerToken" in answer:
        return "claimed"
    receipt = answer["receipt"]
    return str(receipt.get("effect", receipt["status"]))


@pytest.mark.rule("F13", "F21", "A2", "A3", "A4", "A8", "A9", "A10", "A11", "R11", "R12", "R13")
@pytest.mark.timeout(60 + 5 * ROUNDS)
@pytest.mark.parametrize("name", LEGAL)
def test_of_two_that_meet_at_one_agent_call_each_is_told_the_truth_and_the_call_has_one_legal_end(
    service: Service, name: str
) -> None:
    moments = chance(name)
    ends: Counter[tuple[str, str]] = Counter()
    one, _, other = name.partition("/")
    for number in range(ROUNDS):
        agent = waiting_agent(service, claim=one != "claim")
        rival = agent if other != "claim" else Agent(service, agent_caller(service), agent.run_id, agent.call_id)
        answers = meet(moments, contender(agent, one), contender(rival, other))
        words = told(answers[0]), told(answers[1])
        ends[words] += 1
        assert words in LEGAL[name], (number, answers)
        check_run(service, agent.run_id)
        call = AgentCall.objects.get(pk=agent.call_id)
        expected = LEGAL[name][words]
        assert call.closed_as in (("", "interrupted") if expected == "either" else (expected,)), (number, answers)
        completed = call.receipts.filter(status="completed").values_list("tool_call_id", flat=True)
        assert state_of(agent)["lines"] == list(completed.order_by("settled_at"))
        go_on(agent, winner=rival if words == ("CONFLICT", "claimed") else agent)
    print(name, dict(ends))


def go_on(agent: Agent, *, winner: Agent) -> None:
    """Whatever the two left behind, the Run comes to its end: an open call can still be completed."""
    service = agent.service
    ToolReceipt.objects.exclude(lease_expires_at=None).update(lease_expires_at=database_time_after(-1))
    sweep(now=clock.now())
    run = agent.run()
    if run["status"] == "waiting":
        claimed = winner.claim()
        assert "ownerToken" in claimed, claimed
        assert "receipt" in winner.complete(**RESULT)
    if agent.run()["status"] == "paused":
        service.operate("resume_run", runId=agent.run_id, expectedRevision=agent.run()["revision"])
    service.work()
    check_run(service, agent.run_id)
    call = AgentCall.objects.get(pk=agent.call_id)
    ended = {"completed": ("completed", "cancelled"), "cancelled": ("cancelled",)}
    assert agent.run()["status"] in ended.get(call.closed_as, ("failed",))
    assert call.receipts_until is not None
    assert not Run.objects.filter(status__in=["running", "queued"]).exists()
