"""External agents with the official client, on a real service: whole Looms, other processes, and what is refused."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import urllib.error
import urllib.request
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from local_service import ROOT, Services, Up
from scripted_agent import Client, Json, ScriptedAgent, drive, other_process

from apps.looms.scripts import FILES, ScriptShape, read_script

EXAMPLES = ROOT / "apps" / "looms" / "examples"


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where Runs of ``intent`` may have their folders."""
    return tmp_path_factory.mktemp("folders").resolve()


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory, folders: Path) -> Iterator[Up]:
    """A service whose operator allows ``intent`` Python and the folders."""
    found = Services()
    allowed = {"LOOM_INTENT_ROOTS": str(folders), "LOOM_INTENT_COMMANDS": "python"}
    yield found.up(tmp_path_factory.mktemp("data"), **allowed)
    found.end()


def entry(up: Up, name: str = "agent_ide") -> tuple[str, str]:
    """Address and token of an Entry."""
    found = up.connection["entries"][name]
    return up.url + found["path"], found["token"]


def script_of(file: Path, folder: Path = Path()) -> tuple[ScriptShape, Any]:
    """A script, its files written into ``folder``, and the input that it gives."""
    script, problems = read_script(file.read_text(encoding="utf-8"), file.name)
    assert script is not None, problems
    for path, content in script.files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(content, encoding="utf-8")
    given: Any = json.loads(json.dumps(script.input).replace(FILES, str(folder)))
    return script, given


def has(found: Any, wanted: Any) -> bool:
    """Whether ``found`` has all of ``wanted``: its objects may have more members."""
    if isinstance(wanted, Mapping):
        return isinstance(found, Mapping) and all(has(found.get(name), value) for name, value in wanted.items())
    if isinstance(wanted, list):
        return isinstance(found, list) and len(found) == len(wanted) and all(map(has, found, wanted))
    return bool(found == wanted)


def pages(up: Up, path: str, member: str) -> list[Json]:
    """Everything that a list over REST holds."""
    found: list[Json] = []
    cursor = ""
    while True:
        page = up.rest(f"{path}?limit=200{cursor}")
        found += page[member]
        if "nextCursor" not in page:
            return found
        cursor = f"&cursor={page['nextCursor']}"


def rows(up: Up, sql: str, *values: str) -> list[tuple[Any, ...]]:
    """What the ledger's own tables say; ids stand there without hyphens."""
    ledger = sqlite3.connect(f"file:{up.folder / 'ledger.sqlite3'}?mode=ro", uri=True)
    try:
        return ledger.execute(sql, [value.replace("-", "") for value in values]).fetchall()
    finally:
        ledger.close()


def check_results(up: Up, run: Json, script: ScriptShape) -> dict[str, Json]:
    """The Run came to what the script expects, as REST shows the ledger; its Artifacts by Stage."""
    assert (run["status"], run["outcome"]) == ("completed", script.expect.outcome), run
    artifacts = {}
    for artifact_id in run["results"]["artifactIds"]:
        artifact = up.rest(f"/api/v1/artifacts/{artifact_id}")["artifact"]
        artifacts[artifact["stageName"]] = artifact["data"]
    for wanted in script.expect.artifacts:
        assert has(artifacts[wanted.stage], wanted.data), (wanted, artifacts[wanted.stage])
    records = [up.rest(f"/api/v1/records/{record_id}")["record"] for record_id in run["results"]["recordIds"]]
    for wanted in script.expect.records:
        of_stage = [one["data"] for one in records if one["stageName"] == wanted.stage]
        assert any(wanted.data is None or has(data, wanted.data) for data in of_stage), wanted
    return artifacts


def events_of(up: Up, run_id: str) -> list[Json]:
    """The Run's events; they are numbered without gaps and hold no token."""
    events = pages(up, f"/api/v1/runs/{run_id}/events", "events")
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert "loom_owner_" not in json.dumps(events)
    return events


@pytest.mark.rule("A1", "A2", "A3", "A4", "A6", "A7", "A8", "H1", "H2", "R16")
def test_an_agent_completes_intent_with_questions_refusals_and_a_repair(up: Up, folders: Path) -> None:
    script, given = script_of(Path(__file__).parent / "intent_words.yaml", folders)
    played: list[ScriptedAgent] = []

    async def act(client: Client) -> None:
        agent = ScriptedAgent(client, script)
        played.append(agent)
        run = await agent.finish(await client.start("intent", given))
        artifacts = check_results(up, run, script)
        check_folder(folders / "words", artifacts["implementation"], agent.results)
        check_ledger(up, run["runId"], agent)

    drive(*entry(up), act)
    agents = [task["agentId"] for task in played[0].tasks]
    assert agents == ["analyst", "analyst", "analyst", "architect", "developer", "developer", "examiner"]


def check_folder(folder: Path, manifest: Json, results: list[Json]) -> None:
    """What the folder holds is what was filed, and what the Tools said that they wrote."""
    there = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.glob("*.*")}
    assert {file["path"]: file["sha256"] for file in manifest["files"]} == there
    wrote = [one["output"] for one in results if one["receipt"]["toolId"] == "write_file" and "output" in one]
    assert {one["path"]: one["sha256"] for one in wrote} == {name: there[name] for name in there.keys() - {"README.md"}}


def check_ledger(up: Up, run_id: str, agent: ScriptedAgent) -> None:
    """Events and tables say of each Agent Step, Tool call and answer what the agent saw, once."""
    events = events_of(up, run_id)
    steps = [f"{one['data']['stage']}.{one['data']['step']}" for one in events if one["type"] == "StepCompleted"]
    assert steps == agent.script.expect.steps
    types = Counter(event["type"] for event in events)
    calls, tools, answers = len(agent.tasks), len(agent.results), len(agent.script.answers)
    assert [types[name] for name in ("AgentCallOpened", "AgentCallClaimed", "AgentCallClosed")] == [calls] * 3
    assert [types[name] for name in ("ToolCallStarted", "ToolCallSettled", "ActionAnswered")] == [tools, tools, answers]
    answered = [event["data"]["answeredBy"] for event in events if event["type"] == "ActionAnswered"]
    assert {(by["source"], by["via"]) for by in answered} == {("agent_ide", "answer_ask")}

    ended = "SELECT agent_id, closed_as, claim_digest <> '' FROM agents_agentcall WHERE run_id = ? ORDER BY id"
    assert rows(up, ended, run_id) == [(task["agentId"], "completed", 1) for task in agent.tasks]
    receipts = (
        "SELECT r.tool_id, r.status FROM agents_toolreceipt r JOIN agents_agentcall c ON c.id = r.call_id "
        "WHERE c.run_id = ? ORDER BY r.id"
    )
    assert rows(up, receipts, run_id) == [(one["receipt"]["toolId"], one["receipt"]["status"]) for one in agent.results]
    operations = "SELECT kind, status, count(*) FROM ledger_operation WHERE run_id = ? GROUP BY 1, 2 ORDER BY 1"
    assert rows(up, operations, run_id) == [("answer_ask", "accepted", answers), ("run", "accepted", 1)]


@pytest.mark.rule("H3", "H6", "K13")
@pytest.mark.parametrize("name", ["straight", "feedback", "unclear"])
def test_an_agent_brings_review_to_its_end_and_a_person_has_each_last_word(up: Up, name: str) -> None:
    script, given = script_of(EXAMPLES / "review" / "tests" / f"{name}.yaml")

    def person(run: Json, answer: Any) -> None:
        """Over REST, as the console of an operator does."""
        identity = {"operationId": str(uuid.uuid4()), "serviceInstanceId": up.connection["serviceInstanceId"]}
        path = f"/api/v1/runs/{run['runId']}/actions/{run['pendingAction']['id']}/answer"
        assert up.rest(path, {"answer": answer, **identity})["receipt"]["status"] == "accepted"

    async def act(client: Client) -> None:
        run = await ScriptedAgent(client, script, person).finish(await client.start("review", given))
        check_results(up, run, script)
        events = events_of(up, run["runId"])
        answered = [event["data"]["answeredBy"] for event in events if event["type"] == "ActionAnswered"]
        confirmed = [isinstance(said, bool) or "isConfirmed" in said for said in script.answers]
        assert [(by["source"], by["via"]) for by in answered] == [
            ("studio", "rest") if last else ("agent_ide", "answer_ask") for last in confirmed
        ]
        # What was refused to the agent left no trace: one Operation for each answer, and the `run`.
        (stored,) = rows(up, "SELECT count(*) FROM ledger_operation WHERE run_id = ?", run["runId"])[0]
        assert stored == len(script.answers) + 1

    drive(*entry(up), act)


def started(up: Up, folders: Path, name: str) -> Json:
    """A reference to the first Agent Step of a Run of ``intent`` that wants little."""
    (folders / name).mkdir()
    found: list[Json] = []

    async def act(client: Client) -> None:
        run = await client.at_rest(await client.start("intent", {"wish": "Little.", "folder": str(folders / name)}))
        found.append({"runId": run["runId"], "callId": run["pendingAgentCall"]["id"]})

    drive(*entry(up), act)
    return found[0]


def cancel(up: Up, run_id: str) -> None:
    identity = {"operationId": str(uuid.uuid4()), "serviceInstanceId": up.connection["serviceInstanceId"]}
    assert up.rest(f"/api/v1/runs/{run_id}/cancel", identity)["run"]["status"] == "cancelled"


@pytest.mark.rule("A2", "A3", "A8", "R13")
def test_a_task_goes_on_in_another_process_with_its_claim_and_with_no_other(up: Up, folders: Path) -> None:
    reference = started(up, folders, "reconnect")
    listing = {"toolCallId": "list", "toolId": "list_files", "input": {}}
    with other_process(*entry(up)) as first, other_process(*entry(up)) as stranger:
        claimed = first.call("claim_agent_call", **reference, claimId="desk")
        owned = {**reference, "ownerToken": claimed["ownerToken"]}
        listed = first.call("call_agent_tool", **owned, **listing)
        assert listed["output"] == {"files": [], "others": 0}
        refused = stranger.call("claim_agent_call", **reference, claimId="other desk")
        assert (refused["error"]["code"], refused["error"]["retryable"]) == ("CONFLICT", False)
        first.process.kill()
        assert first.process.wait() < 0
        # Still the same, from whichever process: the claim is not the process's.
        assert stranger.call("claim_agent_call", **reference, claimId="other desk") == refused

    (folders / "reconnect" / "new.txt").write_text("since then")
    with other_process(*entry(up)) as second:
        assert second.call("claim_agent_call", **reference, claimId="desk") == claimed
        assert second.call("call_agent_tool", **owned, **listing) == listed
        seen = second.call("get_agent_call", **reference)["agentCall"]
        assert seen["pending"]["phase"] == "claimed"
        assert seen["receipts"] == [{"toolCallId": "list", "toolId": "list_files", "status": "completed"}]
        again = second.call("call_agent_tool", **owned, **{**listing, "toolCallId": "again"})
        assert again["output"]["files"] == [{"path": "new.txt", "size": 10}]
        question = {"id": "more", "question": "Is that all?", "why": "It is little."}
        accepted = second.call("complete_agent_call", **owned, result={"outcome": "asks", "questions": [question]})
        assert accepted["receipt"]["status"] == "accepted"
    run = up.until(reference["runId"], "waiting")
    assert run["pendingAction"]["request"][0]["question"] == "Is that all?"
    claims = [event for event in events_of(up, reference["runId"]) if event["type"] == "AgentCallClaimed"]
    assert len(claims) == 1
    cancel(up, reference["runId"])


def post(up: Up, path: str, token: str) -> tuple[int, Json]:
    """Status and answer of a call of ``status`` over plain HTTP."""
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "status", "arguments": {}}}
    headers = {
        "authorization": f"Bearer {token}",
        "content-type": "application/json",
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": "2025-11-25",
    }
    request = urllib.request.Request(up.url + path, data=json.dumps(call).encode(), headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


@pytest.mark.rule("H6", "K11", "K13", "E6")
def test_what_an_agent_holds_opens_its_own_task_and_no_other_door(up: Up, folders: Path) -> None:
    reference = started(up, folders, "doors")
    with other_process(*entry(up)) as agent:
        token = agent.call("claim_agent_call", **reference, claimId="desk")["ownerToken"]
    _, credential = entry(up)
    for path in ("/mcp", "/mcp/codex", "/internal/mcp", "/internal/mcp/studio"):
        assert post(up, path, token)[0] == 401
    assert post(up, "/mcp", credential)[0] == 200
    assert post(up, "/internal/mcp", credential)[0] == 403
    assert post(up, "/internal/mcp/studio", credential)[0] == 403
    for path, bearer, status in (("/api/v1/runs", token, 401), ("/api/v1/runs", credential, 403)):
        request = urllib.request.Request(up.url + path, headers={"authorization": f"Bearer {bearer}"})
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(request, timeout=20)
        assert refused.value.code == status
        assert token not in refused.value.read().decode()
    # Nor does it stand anywhere: it is computed.
    for file in (up.folder / "ledger.sqlite3", up.folder / "ledger.sqlite3-wal"):
        assert token.encode() not in file.read_bytes()
    cancel(up, reference["runId"])


@pytest.mark.rule("N8", "R15")
def test_every_entry_says_who_reasons_there(up: Up) -> None:
    async def agent(client: Client) -> None:
        service = (await client.call("status"))["service"]
        assert (service["ready"], service["agentExecutor"], service["source"]) == (True, "mcp_client", "agent_ide")
        assert "notReadyBecause" not in service

    async def command(client: Client) -> None:
        service = (await client.call("status"))["service"]
        assert (service["ready"], service["agentExecutor"]) == (True, "service_model")
        # A Loom of Code Steps runs there as well.
        assert (await client.at_rest(await client.start("capture", {"text": "hello"})))["status"] == "completed"

    drive(*entry(up), agent)
    drive(*entry(up, "cli"), command)
