"""Three web processes behind one port, without stickiness: every follow-up lands anywhere and works (N5, H4)."""

from __future__ import annotations

import asyncio
import json
import signal
import threading
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
from mcp import ClientSession
from mcp.client.streamable_http import streamablehttp_client
from mcp.types import ElicitResult

from tests.acceptance.balanced import Balanced, Session, balanced, needs_haproxy
from tests.acceptance.conftest import Scene
from tests.acceptance.scaled import Client, Deployment, eventually

ANSWER = {"answer1": "Go on"}
#: From the revocation on (K12).
REVOKED_SECONDS = 5.0


@pytest.fixture(scope="module")
def webs(deployment: Deployment) -> list[Client]:
    """Three web processes."""
    needs_haproxy()
    return [*deployment.webs, deployment.web()]


@pytest.fixture
def port(webs: list[Client], scene: Scene) -> Iterator[Balanced]:
    """A client at the one port before the three."""
    with balanced(scene.folder, webs) as found:
        yield found


@pytest.fixture
def session(port: Balanced) -> Iterator[Session]:
    opened = port.open_session()
    yield opened
    opened.close()


def asking(scene: Scene) -> dict[str, Any]:
    """Arguments of `interact` for a Run that waits for a person, under a fresh identity."""
    scene.deployment.worker(slots=1)
    run_id = scene.client.start(do=[{"ending": "ask"}])
    run = scene.client.reaches(run_id, "waiting")
    identity = {"operationId": str(uuid.uuid4()), "serviceInstanceId": scene.client.instance_id()}
    return {**identity, "runId": run_id, "actionId": run["pendingAction"]["id"]}


def admitted(scene: Scene, arguments: Any) -> list[str]:
    """The operationIds under which something was admitted for the Run, its start apart."""
    rows = scene.deployment.sql(
        "SELECT operation_id::text FROM ledger_operation WHERE run_id = %s AND kind <> 'run' AND status = 'accepted'",
        arguments["runId"],
    )
    return [row[0] for row in rows]


@pytest.mark.rule("N5")
def test_a_session_opened_at_one_is_served_and_ended_by_all(port: Balanced, session: Session) -> None:
    ports = {web.port for web in port.webs}
    for method, params in (
        ("ping", {}),
        ("tools/list", {}),
        ("resources/read", {"uri": "loom://looms/trial"}),
        ("prompts/get", {"name": "trial"}),
    ):
        answers = [session.request(method, **params) for _ in range(3)]
        assert {answer.served_by for answer in answers} == ports
        assert all(answer.status == 200 and answer.body["result"] == answers[0].body["result"] for answer in answers)
    ended = session.send(None, method="DELETE")
    assert ended.status == 204
    after = [session.request("ping") for _ in range(3)]
    assert {answer.served_by for answer in after} == ports
    assert {answer.status for answer in after} == {404}


@pytest.mark.rule("N5", "H4", "O3")
def test_a_form_that_one_shows_is_answered_through_another_and_all_have_the_receipt(
    scene: Scene, port: Balanced, session: Session
) -> None:
    arguments = asking(scene)
    stream = session.ask(arguments)
    form = stream.message()
    assert form["method"] == "elicitation/create"
    answered = session.answer(form, ANSWER)
    assert answered.status == 202
    assert answered.served_by != stream.served_by
    done = stream.result()
    assert (done["receipt"]["status"], done["receipt"]["kind"]) == ("accepted", "interact")
    again = [session.tool("interact", arguments) for _ in range(3)]
    assert {served_by for served_by, _ in again} == {web.port for web in port.webs}
    assert all(result["receipt"] == done["receipt"] for _, result in again)
    assert session.answer(form, ANSWER).status == 400, "nobody awaits it any more"
    scene.client.reaches(arguments["runId"], "completed")


@pytest.mark.rule("N5", "H4", "O3")
def test_state_that_one_signed_is_taken_by_every_other(scene: Scene, port: Balanced) -> None:
    arguments = asking(scene)
    key = arguments["actionId"]
    asked = port.modern("interact", arguments)
    state = asked.body["result"]["requestState"]
    seen = {asked.served_by}
    for _ in range(2):
        empty = {key: {"action": "accept", "content": {}}}
        again = port.modern("interact", arguments, inputResponses=empty, requestState=state)
        assert again.body["result"]["resultType"] == "input_required"
        seen.add(again.served_by)
    assert seen == {web.port for web in port.webs}
    responses = {key: {"action": "accept", "content": ANSWER}}
    done = [port.modern("interact", arguments, inputResponses=responses, requestState=state) for _ in range(3)]
    receipts = [answer.body["result"]["structuredContent"]["receipt"] for answer in done]
    assert receipts[0]["status"] == "accepted"
    assert receipts == [receipts[0]] * 3
    other = {**arguments, "runId": str(uuid.uuid4())}
    for _ in range(3):
        assert port.modern("interact", other, inputResponses=responses, requestState=state).status == 400
    assert admitted(scene, arguments) == [arguments["operationId"]]


@pytest.mark.rule("N5", "A2", "A3", "A8")
def test_a_claim_its_tools_and_its_completion_are_spread_over_all(
    scene: Scene, port: Balanced, session: Session
) -> None:
    scene.deployment.worker(slots=1)
    identity = {"operationId": str(uuid.uuid4()), "serviceInstanceId": scene.client.instance_id()}
    _, started = session.tool("run", {**identity, "loomName": "assist", "input": {}})
    run_id = started["run"]["runId"]
    run = scene.client.reaches(run_id, "waiting")
    reference = {"runId": run_id, "callId": run["pendingAgentCall"]["id"]}
    claim = {**reference, "claimId": "the one that claims"}

    def everywhere(name: str, arguments: dict[str, Any]) -> Any:
        """The one answer of all three, each asked in turn."""
        answers = [session.tool(name, arguments) for _ in range(3)]
        assert {served_by for served_by, _ in answers} == {web.port for web in port.webs}
        assert all(result == answers[0][1] for _, result in answers), answers
        return answers[0][1]

    owned = {**reference, "ownerToken": everywhere("claim_agent_call", claim)["ownerToken"]}
    for number in range(3):
        arguments = {**owned, "toolCallId": f"call {number}", "toolId": "add", "input": {"line": "x"}}
        assert everywhere("call_agent_tool", arguments)["output"] == {"lines": number + 1}
    complete = {**owned, "result": {"outcome": "written", "text": "Done."}}
    assert everywhere("complete_agent_call", complete)["receipt"]["status"] == "accepted"
    ended = scene.client.reaches(run_id, "completed")
    artifact = session.tool("get_artifact", {"artifactId": ended["results"]["artifactIds"][0]})[1]["artifact"]
    assert artifact["data"] == {"text": "Done.", "lines": ["x", "x", "x"]}


@pytest.mark.rule("K12", "N5")
def test_a_revoked_credential_is_refused_by_all_at_once_and_its_open_forms_end(scene: Scene, port: Balanced) -> None:
    arguments = asking(scene)
    options = ("--project", "trials", "--source", "agent_ide", "--label", "leaked", "--json")
    made = json.loads(scene.deployment.command("token_create", *options))
    leaked = replace(port, token=made["token"])
    session = leaked.open_session()
    streams = [session.ask(arguments) for _ in range(3)]
    assert {stream.served_by for stream in streams} == {web.port for web in port.webs}
    assert all(stream.message()["method"] == "elicitation/create" for stream in streams)
    assert session.request("ping").status == 200
    scene.deployment.command("token_revoke", made["publicId"])
    revoked_at = time.monotonic()
    after = [session.request("ping") for _ in range(3)]
    assert {answer.served_by for answer in after} == {web.port for web in port.webs}
    assert {answer.status for answer in after} == {401}
    for stream in streams:
        messages = list(iter(stream.message, None))
        assert messages[0]["method"] == "notifications/cancelled"
        assert messages[-1]["error"]["data"]["code"] == "UNAUTHENTICATED"
    assert time.monotonic() - revoked_at < REVOKED_SECONDS
    session.close()
    assert admitted(scene, arguments) == []


@pytest.mark.rule("H4", "N5")
def test_a_web_process_that_dies_with_a_form_open_loses_no_way_to_answer(scene: Scene, webs: list[Client]) -> None:
    arguments = asking(scene)
    victim = scene.deployment.web()
    process = scene.deployment.processes[-1]
    with balanced(scene.folder, [*webs[:2], victim]) as port:
        session = port.open_session()
        port.next_is(victim)
        stream = session.ask(arguments)
        assert stream.served_by == victim.port
        lost = stream.message()
        process.send(signal.SIGKILL)
        process.ended(within=10)
        assert stream.message() is None, "the call broke off"
        assert admitted(scene, arguments) == []
        # Whoever is asked now is asked elsewhere, and no request is lost to the dead process.
        again = session.ask(arguments)
        form = again.message()
        assert again.served_by != victim.port
        assert form["params"] == lost["params"]
        assert form["id"] != lost["id"]
        assert session.answer(form, ANSWER).status == 202
        done = again.result()
        assert done["receipt"]["status"] == "accepted"
        receipts = [session.tool("interact", arguments)[1]["receipt"] for _ in range(3)]
        assert receipts == [done["receipt"]] * 3
        session.close()
    assert admitted(scene, arguments) == [arguments["operationId"]]
    scene.client.reaches(arguments["runId"], "completed")


@pytest.mark.rule("H4", "O3", "F20")
def test_the_same_interact_open_at_all_three_and_answered_at_one_moment_is_admitted_once(
    scene: Scene, port: Balanced, session: Session
) -> None:
    arguments = asking(scene)
    streams = [session.ask(arguments) for _ in range(3)]
    assert {stream.served_by for stream in streams} == {web.port for web in port.webs}
    forms = [stream.message() for stream in streams]
    barrier = threading.Barrier(3)

    def fill_in(form: Any) -> int:
        barrier.wait(10)
        return session.answer(form, ANSWER).status

    with ThreadPoolExecutor(3) as pool:
        # One that comes after the others were done is told that nobody awaits it.
        assert set(pool.map(fill_in, forms)) <= {202, 400}
    results = [stream.result()["receipt"] for stream in streams]
    # Whoever comes while another decides is told that it is not decided yet (O3).
    assert {receipt["status"] for receipt in results} <= {"accepted", "pending"}
    assert "accepted" in [receipt["status"] for receipt in results]
    again = [session.tool("interact", arguments)[1]["receipt"] for _ in range(3)]
    assert again == [again[0]] * 3
    assert again[0] in results
    assert admitted(scene, arguments) == [arguments["operationId"]]
    scene.client.reaches(arguments["runId"], "completed")
    assert scene.client.events(arguments["runId"]).count("ActionAnswered") == 1


@pytest.mark.rule("N5", "H4", "O3")
def test_once_one_call_has_its_answer_the_same_call_elsewhere_has_the_receipt_and_takes_no_other(
    scene: Scene, port: Balanced, session: Session
) -> None:
    arguments = asking(scene)
    one, two = session.ask(arguments), session.ask(arguments)
    assert one.served_by != two.served_by
    forms = one.message(), two.message()
    assert session.answer(forms[0], {"answer1": "Yes"}).status == 202
    first = one.result()
    assert first["receipt"]["status"] == "accepted"
    withdrawn = two.message()
    assert (withdrawn["method"], withdrawn["params"]["requestId"]) == ("notifications/cancelled", forms[1]["id"])
    assert two.result()["receipt"] == first["receipt"]
    assert session.answer(forms[1], {"answer1": "No"}).status == 400
    assert admitted(scene, arguments) == [arguments["operationId"]]


@pytest.mark.rule("N5", "H4")
def test_the_official_client_has_its_human_asked_through_the_one_port(scene: Scene, port: Balanced) -> None:
    arguments = asking(scene)

    async def show(context: Any, params: Any) -> ElicitResult:
        return ElicitResult(action="accept", content=ANSWER)

    async def act() -> Any:
        url, headers = f"http://127.0.0.1:{port.port}/mcp", {"Authorization": f"Bearer {port.tokens['agent_ide']}"}
        async with (
            streamablehttp_client(url, headers=headers) as (read, write, _),
            ClientSession(read, write, elicitation_callback=show) as client,
        ):
            await client.initialize()
            return await client.call_tool("interact", arguments)

    result = asyncio.run(asyncio.wait_for(act(), 30))
    assert result.structuredContent["receipt"]["status"] == "accepted"
    scene.client.reaches(arguments["runId"], "completed")


@pytest.mark.rule("N5")
def test_a_process_that_is_gone_is_passed_over_before_its_next_check(scene: Scene, webs: list[Client]) -> None:
    victim = scene.deployment.web()
    with balanced(scene.folder, [*webs[:2], victim]) as port:
        eventually(lambda: port.modern("status", {}).served_by == victim.port, within=20, what="it takes part")
        scene.deployment.processes[-1].kill()
        answers = [port.modern("status", {}) for _ in range(6)]
        assert {answer.status for answer in answers} == {200}
        assert {answer.served_by for answer in answers} == {web.port for web in webs[:2]}
