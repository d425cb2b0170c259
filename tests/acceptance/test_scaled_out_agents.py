"""Agents whose web processes die, whose workers die, and whose service is started anew."""

from __future__ import annotations

import signal
import time
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from tests.acceptance.agent_at_work import GONE, RESULT, Agent, settles, story_of, waiting_agent
from tests.acceptance.auditor import FORBIDDEN, forbidden
from tests.acceptance.conftest import Scene
from tests.acceptance.scaled import LEASE_SECONDS, SWEEP_SECONDS, eventually


@pytest.mark.rule("A3", "A11", "A8", "F19", "R13")
def test_tools_cut_off_by_their_web_process_are_indeterminate_and_their_agents_go_on_through_another(
    scene: Scene,
) -> None:
    scene.deployment.sweep()
    scene.deployment.worker(slots=1)
    dying = scene.deployment.web()
    process = scene.deployment.processes[-1]
    mark = scene.folder / "mark"
    lingering = waiting_agent(dying, gate=str(scene.folder / "never"), mark=str(mark))
    killing = waiting_agent(dying)
    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(lingering.tool, "linger", "one")
        eventually(mark.exists, within=20, what="the Tool runs")
        renewed = "SELECT max(lease_expires_at - created_at) > make_interval(secs => %s) FROM agents_toolreceipt"
        eventually(
            lambda: scene.deployment.sql(f"{renewed} WHERE status = 'running'", LEASE_SECONDS + 2) == [(True,)],
            within=LEASE_SECONDS,
            what="its lease is renewed while its process lives",
        )
        with pytest.raises(GONE):
            killing.tool("die", "one")
        with pytest.raises(GONE):
            call.result(10)
    died = time.monotonic()
    assert process.ended(within=10) == -signal.SIGKILL
    agents = [agent.at(scene.client) for agent in (lingering, killing)]
    for agent, tool in zip(agents, ("linger", "die"), strict=True):
        assert agent.tool(tool, "one")["receipt"]["status"] == "running"
        assert agent.tool("add", "two", line="early")["error"]["code"] == "BUSY"
        assert agent.complete()["error"]["code"] == "BUSY"
    for agent, tool in zip(agents, ("linger", "die"), strict=True):
        assert settles(agent, "one") == "indeterminate"
        assert time.monotonic() - died < LEASE_SECONDS + SWEEP_SECONDS + 5
        # Asked for again, it is not run again: this process would not live to tell.
        again = agent.tool(tool, "one")
        assert (again["receipt"]["status"], again["error"]["code"]) == ("indeterminate", "TOOL_FAILED")
        assert agent.tool("add", "two", line="goes on")["output"] == {"lines": 1}
        assert agent.complete()["receipt"]["status"] == "accepted"
        assert scene.client.reaches(agent.run_id, "completed", "failed")["status"] == "completed"
        story = story_of(scene.deployment.database_url, agent.run_id)
        assert story.state == {"lines": ["goes on"]}
        assert story.receipts == {"one": "indeterminate", "two": "completed"}


@pytest.mark.rule("A2", "R13")
def test_a_claim_survives_the_death_of_the_web_and_worker_processes_that_made_it(scene: Scene) -> None:
    dying = scene.deployment.web()
    scene.deployment.worker(slots=1)
    agent = waiting_agent(dying)
    assert agent.tool("add", "one", line="before")["output"] == {"lines": 1}
    before = scene.client.run(agent.run_id)
    for process in scene.deployment.processes[-2:]:
        process.kill()
    scene.deployment.sweep()
    scene.deployment.worker(slots=1)
    assert scene.client.run(agent.run_id) == before
    token = agent.token
    agent = Agent(scene.client, agent.run_id, agent.call_id, claim_id=agent.claim_id)
    assert agent.claim()["ownerToken"] == token
    assert agent.tool("add", "one", line="before")["output"] == {"lines": 1}
    assert agent.tool("add", "two", line="after")["output"] == {"lines": 2}
    assert agent.complete()["receipt"]["status"] == "accepted"
    assert scene.client.reaches(agent.run_id, "completed", "failed")["status"] == "completed"


@pytest.mark.rule("R13", "A1", "A5", "A10", "A11", "H7")
def test_a_new_instance_ends_what_agents_had_claimed_and_whatever_waits_for_somebody_goes_on(scene: Scene) -> None:
    scene.deployment.sweep()
    scene.deployment.worker(slots=1)
    gate, mark = scene.folder / "gate", scene.folder / "mark"
    claimed = waiting_agent(scene.client, gate=str(gate), mark=str(mark))
    added = claimed.tool("add", "done", line="before")
    unclaimed = waiting_agent(scene.client, claim=False)
    asking = scene.client.start(do=[{"ending": "ask"}])
    action = scene.client.reaches(asking, "waiting")["pendingAction"]["id"]
    resting = scene.client.run(unclaimed.run_id), scene.client.run(asking)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(claimed.tool, "linger", "cut off")
        eventually(mark.exists, within=20, what="the Tool runs")
        scene.deployment.command("instance_open")
        run = scene.client.run(claimed.run_id)
        assert (run["status"], run["lastError"]["code"], run["historical"]) == ("failed", "RUN_INTERRUPTED", True)
        view = claimed.view()
        assert (view["pending"], view["task"], view["closedAs"]) == (None, None, "interrupted")
        assert [receipt["status"] for receipt in view["receipts"]] == ["completed", "indeterminate"]
        # Its web process lived on: what the Tool returns now lands nowhere.
        gate.touch()
        assert running.result(20)["receipt"]["status"] == "indeterminate"
    assert claimed.tool("add", "done", line="before") == added
    for refused in (claimed.tool("add", "new", line="late"), claimed.complete(), claimed.claim()):
        assert refused["error"]["code"] == "CONFLICT"
        assert "restarted" in refused["error"]["message"]
    assert scene.client.run(claimed.run_id) == run
    story = story_of(scene.deployment.database_url, claimed.run_id)
    assert story.state == {"lines": ["before"]}
    assert story.attempts[-1] == ("write", "indeterminate")

    assert (scene.client.run(unclaimed.run_id), scene.client.run(asking)) == resting
    assert "ownerToken" in unclaimed.claim()
    assert unclaimed.complete()["receipt"]["status"] == "accepted"
    answer = [{"questionId": "q", "isSkipped": False, "answer": "yes"}]
    answered = scene.client.operate("answer_ask", runId=asking, actionId=action, answer=answer)
    assert answered["receipt"]["effect"] == "applied"
    scene.deployment.worker(slots=1)
    for run_id in (unclaimed.run_id, asking):
        assert scene.client.reaches(run_id, "completed", "failed")["status"] == "completed"


@pytest.mark.rule("R13", "F1")
def test_a_call_whose_worker_dies_while_opening_it_is_opened_again_and_once(scene: Scene) -> None:
    # Step by step, so that the Agent Step is what the dying worker takes first.
    worker = scene.deployment.worker(slots=1)
    agent = waiting_agent(scene.client)
    run_id = agent.run_id
    scene.client.operate("pause_run", runId=run_id)
    agent.ask("complete_agent_call", ownerToken=agent.token, result={**RESULT, "outcome": "again"})
    paused = scene.client.reaches(run_id, "paused")
    scene.client.operate("resume_run", runId=run_id, expectedRevision=paused["revision"], steps=1)
    paused = scene.client.reaches(run_id, "paused")
    worker.kill()
    scene.client.operate("resume_run", runId=run_id, expectedRevision=paused["revision"])
    dying = scene.deployment.worker_unready(pool="prefork", slots=1, level="INFO", LOOMSVC_FAILPOINT="after_claim:kill")
    dying.said("exited with")
    dying.kill()
    assert scene.client.run(run_id)["status"] == "running"
    scene.deployment.sweep()
    scene.deployment.worker(slots=1)
    waiting = scene.client.reaches(run_id, "waiting", "failed")
    assert waiting["status"] == "waiting", waiting
    assert waiting["cursor"] == {"stage": "work", "step": "write", "visit": 2}
    story = story_of(scene.deployment.database_url, run_id)
    assert story.calls == ["completed", ""]
    assert story.attempts[-1] == ("write", "indeterminate")
    assert story.events[-3:] == ["StepInterrupted", "RunDispatched", "AgentCallOpened"]
    again = Agent(scene.client, run_id, waiting["pendingAgentCall"]["id"])
    assert "ownerToken" in again.claim()
    assert again.complete()["receipt"]["status"] == "accepted"
    assert scene.client.reaches(run_id, "completed", "failed")["status"] == "completed"


#: What is done to a ledger with an open call ``%(open)s`` and a completed one ``%(closed)s``, and what must be seen.
CONTRADICTIONS = {
    "a Run that stands on nothing": """
        UPDATE runs_run SET pending_agent_call = NULL
        WHERE id = (SELECT run_id FROM agents_agentcall WHERE id = %(open)s)""",
    "a Run that waits for another agent call than its open one": """
        UPDATE agents_agentcall SET claim_digest = '' WHERE id = %(open)s""",
    "two open calls of one Run": """
        DROP INDEX one_open_call;
        UPDATE agents_agentcall SET closed_as = '',
            run_id = (SELECT run_id FROM agents_agentcall WHERE id = %(open)s) WHERE id = %(closed)s""",
    "an agent call without its events, or with one too many": """
        DELETE FROM ledger_event WHERE type = 'AgentCallClosed' AND data LIKE '%%' || %(closed)s || '%%'""",
    "an agent event of no call": """
        DELETE FROM agents_toolreceipt WHERE call_id = %(closed)s;
        DELETE FROM agents_agentcall WHERE id = %(closed)s""",
    "an agent event after its call was closed": """
        UPDATE ledger_event SET seq = seq + 100
        WHERE type = 'ToolCallSettled' AND data LIKE '%%' || %(closed)s || '%%'""",
    "a Tool receipt and events that tell of different things": """
        UPDATE agents_toolreceipt SET status = 'failed' WHERE call_id = %(closed)s""",
    "an agent call that miscounts its Tool calls": """
        UPDATE agents_agentcall SET receipts_made = receipts_made + 1 WHERE id = %(open)s""",
    "a Tool that runs for a closed call, or beside another": """
        UPDATE agents_toolreceipt SET status = 'running' WHERE call_id = %(closed)s""",
    "a Tool call whose lease nobody has kept for long, or that runs without one": """
        UPDATE agents_toolreceipt SET lease_expires_at = now() - interval '1 minute' WHERE call_id = %(open)s""",
    "receipts that leave the protocol before their call is closed and settled, or never": """
        UPDATE agents_agentcall SET receipts_until = NULL WHERE id = %(closed)s""",
    "an agent call whose Step ended otherwise": """
        UPDATE runs_stepattempt SET status = 'failed' WHERE step = 'write'""",
    "a Run that went on although its agent did not complete its Step": """
        UPDATE agents_agentcall SET closed_as = 'failed' WHERE id = %(closed)s""",
}


@pytest.mark.rule("A1", "A3", "A5", "A11", "R2")
def test_the_auditor_sees_each_contradiction_about_agent_calls(scene: Scene) -> None:
    scene.deployment.worker(slots=1)
    open_, closed = waiting_agent(scene.client), waiting_agent(scene.client)
    for agent in (open_, closed):
        agent.tool("add", "one", line="x")
    closed.complete()
    scene.client.reaches(closed.run_id, "completed")
    assert CONTRADICTIONS.keys() <= FORBIDDEN.keys()
    with psycopg.connect(scene.deployment.database_url) as connection:
        assert forbidden(connection) == []
        for what, statements in CONTRADICTIONS.items():
            for statement in statements.split(";"):
                connection.execute(statement, {"open": open_.call_id, "closed": closed.call_id})
            assert any(found.startswith(what) for found in forbidden(connection)), what
            connection.rollback()
