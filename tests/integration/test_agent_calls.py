"""The external agent protocol over the real ledger, in one process: who claims a call, and what they are given."""

from __future__ import annotations

import base64
import hashlib
import json
import uuid
from pathlib import Path

import pytest

from apps.agents.models import AgentCall, ToolReceipt
from apps.core import clock
from apps.core.caller import Source
from apps.ledger.models import Event
from apps.results.models import Record
from apps.runs.models import Run
from tests.conftest import Service, caller_in
from tests.integration.agent_work import (
    Agent,
    after_half_an_hour,
    agent_caller,
    code,
    event_types,
    everything,
    paths,
    state_of,
    waiting_agent,
)

pytestmark = pytest.mark.django_db(transaction=True)


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
