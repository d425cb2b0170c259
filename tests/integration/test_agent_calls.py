"""The external agent protocol over the real ledger, in one process (contract section 7)."""

from __future__ import annotations

import base64
import hashlib
import json
import uuid
from pathlib import Path
from typing import Any

import pytest

from apps.agents.models import AgentCall, ToolReceipt
from apps.core import clock
from apps.core.caller import Source
from apps.core.database import database_time_after
from apps.ledger.models import Event
from apps.results.models import Record
from apps.runs.models import Run, StepAttempt
from apps.runs.services.sweeping import sweep
from tests.conftest import Service, caller_in
from tests.integration.agent_work import Agent, agent_caller, code, lingering, state_of, waiting_agent

pytestmark = pytest.mark.django_db(transaction=True)


def paths(result: dict[str, Any]) -> list[str]:
    return [issue["path"] for issue in result["error"]["validation"]["issues"]]


def event_types(run_id: str) -> list[str]:
    return list(Event.objects.filter(run_id=run_id).order_by("seq").values_list("type", flat=True))


def everything(agent: Agent) -> tuple[Any, ...]:
    """What a refused request must leave as it was."""
    return (
        agent.run(),
        agent.view(),
        state_of(agent),
        event_types(agent.run_id),
        list(ToolReceipt.objects.order_by("id").values()),
    )


def after_half_an_hour(agent: Agent) -> None:
    """Move the call's clock: its receipts have left the protocol."""
    AgentCall.objects.filter(pk=agent.call_id).update(receipts_until=database_time_after(-1))


@pytest.mark.rule("R2", "A1", "A2", "A3", "A4", "A8", "R16")
def test_an_agent_claims_its_step_works_with_tools_and_its_output_reaches_the_next_step(service: Service) -> None:
    agent = waiting_agent(service, claim=False)
    run = agent.run()
    assert "pendingAction" not in run
    pending = run["pendingAgentCall"]
    assert pending == {
        "id": agent.call_id,
        "agentId": "writer",
        "phase": "available",
        "createdAt": pending["createdAt"],
    }
    view = agent.view()
    assert view["pending"] == pending
    assert view["receipts"] == []
    claimed = agent.claim()
    assert claimed["task"] == view["task"]
    assert claimed["task"]["cursor"] == {"stage": "work", "step": "write", "visit": 1}
    assert agent.run()["pendingAgentCall"]["phase"] == "claimed"
    called = agent.tool("add", "one", line="first", times=2)
    assert called["output"] == {"lines": 2}
    assert called["receipt"]["status"] == "completed"
    assert state_of(agent) == {"lines": ["first", "first"]}
    assert agent.view()["receipts"] == [{"toolCallId": "one", "toolId": "add", "status": "completed"}]
    completed = agent.complete(outcome="written", text="all of it")
    assert completed == {"receipt": {"runId": agent.run_id, "callId": agent.call_id, "status": "accepted"}}
    service.work()
    run = agent.run()
    assert (run["status"], run["outcome"], run["boundary"]) == ("completed", "kept", 3)
    kept = service.call("get_artifact", loomName="assist", stageName="work")["artifact"]
    assert kept["data"] == {"text": "all of it", "lines": ["first", "first"]}
    closed = agent.view()
    assert (closed["pending"], closed["task"], closed["closedAs"]) == (None, None, "completed")
    assert [receipt["toolCallId"] for receipt in closed["receipts"]] == ["one"]
    happened = event_types(agent.run_id)
    at = happened.index("AgentCallOpened")
    assert happened[at : at + 6] == [
        "AgentCallOpened",
        "AgentCallClaimed",
        "ToolCallStarted",
        "ToolCallSettled",
        "AgentCallClosed",
        "StepCompleted",
    ]


@pytest.mark.rule("A2", "E6")
def test_a_task_holds_what_the_agent_needs_and_nothing_else(service: Service) -> None:
    task = waiting_agent(service, claim=False).claim()["task"]
    assert set(task) == {
        "runId", "callId", "agentId", "cursor", "instructions", "skills", "tools", "outputSchema",
    }  # fmt: skip
    assert task["instructions"].strip() == "Gather lines with the Tools, then submit them."
    (skill,) = task["skills"]
    assert (skill["name"], skill["description"]) == ("manners", "How lines are written.")
    assert {asset["name"]: asset["size"] for asset in skill["assets"]} == {"example.txt": 14, "picture.png": 6}
    tools = {tool["id"]: tool for tool in task["tools"]}
    assert [name for name, tool in tools.items() if tool["isEndTool"]] == ["finish"]
    add = tools["add"]
    assert add["description"] == "Add a line."
    assert add["inputSchema"]["required"] == ["line"]
    assert add["inputSchema"]["properties"]["times"]["type"] == "integer"
    assert add["outputSchema"]["properties"]["lines"]["type"] == "integer"
    assert set(task["outputSchema"]["required"]) == {"outcome", "text"}


@pytest.mark.rule("A2", "K11")
def test_the_same_claim_under_the_same_credential_gets_the_same_token_and_any_other_a_conflict(
    service: Service,
) -> None:
    agent = waiting_agent(service)
    before = everything(agent)
    again = Agent(service, agent.caller, agent.run_id, agent.call_id, claim_id=agent.claim_id).claim()
    assert again["ownerToken"] == agent.token
    other_id = Agent(service, agent.caller, agent.run_id, agent.call_id).claim()
    other_credential = Agent(
        service, agent_caller(service, "another"), agent.run_id, agent.call_id, claim_id=agent.claim_id
    ).claim()
    assert (code(other_id), code(other_credential)) == ("CONFLICT", "CONFLICT")
    assert everything(agent) == before
    assert AgentCall.objects.get(pk=agent.call_id).claimed_by_id == agent.caller.credential_id


@pytest.mark.rule("A3", "K11")
def test_a_token_opens_its_own_call_under_its_own_credential_and_nothing_else(service: Service) -> None:
    agent, stranger = waiting_agent(service), waiting_agent(service)
    unclaimed = waiting_agent(service, claim=False)
    other = agent_caller(service, "another")
    before = everything(agent), everything(stranger), everything(unclaimed)
    attempts = {
        "another call's": Agent(service, agent.caller, agent.run_id, agent.call_id, stranger.token),
        "another credential's": Agent(service, other, agent.run_id, agent.call_id, agent.token),
        "none that exists": Agent(service, agent.caller, agent.run_id, agent.call_id, agent.token[:-2] + "xx"),
        "unclaimed": Agent(service, unclaimed.caller, unclaimed.run_id, unclaimed.call_id, agent.token),
    }
    for name, intruder in attempts.items():
        for result in (
            intruder.tool("add", line="intruded"),
            intruder.asset("manners/example.txt"),
            intruder.complete(outcome="written", text="intruded"),
            intruder.fail(),
        ):
            assert code(result) == "FORBIDDEN", name
    assert (everything(agent), everything(stranger), everything(unclaimed)) == before


@pytest.mark.rule("A1", "E4", "E5", "K10")
def test_a_call_of_another_project_is_one_that_never_was(service: Service) -> None:
    from apps.access.services.projects import create_project

    agent = waiting_agent(service)
    elsewhere = caller_in(create_project(name="elsewhere", now=clock.now()), Source.AGENT_IDE)
    outsider = Agent(service, elsewhere, agent.run_id, agent.call_id, agent.token)
    unknown = str(uuid.uuid4())
    for name, arguments in {
        "get_agent_call": {},
        "claim_agent_call": {"claimId": "mine"},
        "call_agent_tool": {"ownerToken": agent.token, "toolCallId": "x", "toolId": "add", "input": {"line": "x"}},
        "read_agent_asset": {"ownerToken": agent.token, "assetId": "manners/example.txt"},
        "complete_agent_call": {"ownerToken": agent.token, "result": {"outcome": "written", "text": ""}},
        "fail_agent_call": {"ownerToken": agent.token, "message": "no"},
    }.items():
        foreign = outsider.ask(name, **arguments)
        never = agent.ask(name, callId=unknown, **arguments)
        assert code(foreign) == code(never) == "NOT_FOUND", name
        assert foreign["error"]["message"].replace(agent.call_id, unknown) == never["error"]["message"]
        wrong_run = agent.ask(name, runId=unknown, **arguments)
        assert code(wrong_run) == "NOT_FOUND"


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


@pytest.mark.rule("A7")
def test_assets_are_read_by_their_declared_ids_as_text_or_base64(service: Service) -> None:
    agent = waiting_agent(service)
    (skill,) = agent.view()["task"]["skills"]
    ids = {asset["name"]: asset["id"] for asset in skill["assets"]}
    text = agent.asset(ids["example.txt"])["asset"]
    assert (text["encoding"], text["content"]) == ("utf8", "A short line.\n")
    assert text["sha256"] == hashlib.sha256(b"A short line.\n").hexdigest()
    picture = agent.asset(ids["picture.png"])["asset"]
    assert picture["encoding"] == "base64"
    assert base64.b64decode(picture["content"]) == b"\x89PNG\x00\xff"
    for wrong in ("manners/missing.txt", "manners/../../loom.yaml", "/etc/passwd", "SKILL.md", "manners/SKILL.md"):
        refused = agent.asset(wrong)
        assert (code(refused), paths(refused)) == ("INVALID_REQUEST", ["/assetId"])


@pytest.mark.rule("A7")
def test_an_asset_of_a_mebibyte_is_read_and_one_of_a_byte_more_is_too_large(service: Service, loom_paths: Path) -> None:
    import shutil

    from tests.conftest import LOOMS

    copy = loom_paths / "heavy"
    shutil.copytree(LOOMS / "assist", copy)
    (copy / "loom.yaml").write_text((copy / "loom.yaml").read_text().replace("loom: assist", "loom: heavy"))
    (copy / "skills/manners/full.bin").write_bytes(b"\xff" * 1024 * 1024)
    (copy / "skills/manners/over.bin").write_bytes(b"\xff" * (1024 * 1024 + 1))
    agent = waiting_agent(service, "heavy")
    full = agent.asset("manners/full.bin")["asset"]
    assert len(base64.b64decode(full["content"])) == 1024 * 1024
    assert code(agent.asset("manners/over.bin")) == "PAYLOAD_TOO_LARGE"
    assert "receipt" in agent.complete(outcome="written", text="")
    assert code(agent.asset("manners/over.bin")) == "CONFLICT"
    after_half_an_hour(agent)
    assert code(agent.asset("manners/over.bin")) == "CONFLICT"


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


@pytest.mark.rule("H6", "K13", "K11")
def test_an_owner_token_answers_nothing_for_a_human_and_stands_in_no_list(service: Service) -> None:
    agent = waiting_agent(service)
    agent.tool("add", "one", line="x")
    shown = json.dumps(
        [
            agent.run(),
            agent.view(),
            service.call("list_runs"),
            service.call("show_agent_call", callId=agent.call_id),
            service.call("list_run_events", runId=agent.run_id),
            service.call("list_run_attempts", runId=agent.run_id),
        ]
    )
    assert agent.token not in shown
    assert agent.secret not in shown
    stored = [str(row) for model in (AgentCall, ToolReceipt, Run, Event, Record) for row in model.objects.values()]
    assert agent.secret not in "".join(stored)
    assert agent.claim_id not in "".join(stored)


@pytest.mark.rule("A1")
def test_others_see_an_agent_call_over_rest_without_being_able_to_claim_it(service: Service) -> None:
    agent = waiting_agent(service)
    shown = service.call("show_agent_call", callId=agent.call_id)["agentCall"]
    assert shown == agent.view()
    assert code(service.call("show_agent_call", callId=str(uuid.uuid4()))) == "NOT_FOUND"


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
