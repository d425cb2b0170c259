"""An external agent over HTTP, and what the ledger holds of its Run, read with plain SQL."""

from __future__ import annotations

import http.client
import json
import uuid
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

import psycopg

from tests.acceptance.scaled import RECOVERY_SECONDS, Client, eventually

#: What a client sees of a web process that dies while it is being asked.
GONE = (http.client.HTTPException, ConnectionError)
RESULT = {"outcome": "written", "text": "x"}


@dataclass
class Agent:
    """An agent at one call of one Run.  Each method returns the wire result, an error's included."""

    client: Client
    run_id: str
    call_id: str
    token: str = ""
    claim_id: str = field(default_factory=lambda: str(uuid.uuid4()))

    def at(self, client: Client) -> Agent:
        """The same agent, reconnected through another web process."""
        return replace(self, client=client)

    def ask(self, name: str, /, **arguments: Any) -> dict[str, Any]:
        return self.client.as_agent(name, runId=self.run_id, callId=self.call_id, **arguments)

    def view(self) -> dict[str, Any]:
        view: dict[str, Any] = self.ask("get_agent_call")["agentCall"]
        return view

    def claim(self) -> dict[str, Any]:
        claimed = self.ask("claim_agent_call", claimId=self.claim_id)
        self.token = claimed.get("ownerToken", self.token)
        return claimed

    def tool(self, tool: str, tool_call_id: str, /, **arguments: Any) -> dict[str, Any]:
        return self.ask("call_agent_tool", ownerToken=self.token, toolCallId=tool_call_id, toolId=tool, input=arguments)

    def complete(self) -> dict[str, Any]:
        return self.ask("complete_agent_call", ownerToken=self.token, result=RESULT)

    def tool_status(self, tool_call_id: str) -> str:
        """Where a Tool call stands."""
        found = {receipt["toolCallId"]: receipt["status"] for receipt in self.view()["receipts"]}
        return str(found.get(tool_call_id, ""))


def waiting_agent(client: Client, *, claim: bool = True, **given: Any) -> Agent:
    """Start a Run of ``assist``; the agent, once the Run waits for one."""
    identity = {"operationId": str(uuid.uuid4()), "serviceInstanceId": client.instance_id()}
    run_id = client.as_agent("run", loomName="assist", input=given, **identity)["run"]["runId"]
    call = client.reaches(run_id, "waiting")["pendingAgentCall"]
    agent = Agent(client, run_id, call["id"])
    if claim:
        assert "ownerToken" in agent.claim()
    return agent


def settles(agent: Agent, tool_call_id: str, *, within: float = RECOVERY_SECONDS) -> str:
    """The status of a Tool call once it does not run any more."""
    return eventually(
        lambda: status if (status := agent.tool_status(tool_call_id)) != "running" else "",
        within=within,
        what=f"Tool call {tool_call_id} of Run {agent.run_id} has settled",
    )


@dataclass(frozen=True)
class Story:
    """What the ledger holds of one Run at one moment."""

    status: str
    state: Any
    #: ``(kind, status, effect or error code)`` of each Operation but `run`.
    operations: Counter[tuple[str, str, str]]
    #: How its agent calls were closed, ``""`` for an open one.
    calls: list[str]
    #: Tool receipts by their ``toolCallId``.
    receipts: dict[str, str]
    events: list[str]
    #: ``(step, status)`` of each attempt at a Step.
    attempts: list[tuple[str, str]]


def story_of(database_url: str, run_id: str) -> Story:
    """Read it in one snapshot; its events are numbered 1..n and its attempts 0..n-1, whatever happened."""
    with psycopg.connect(database_url) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ

        def rows(statement: str) -> list[tuple[Any, ...]]:
            return connection.execute(statement, [run_id]).fetchall()

        [(status, event_seq, step_seq, asks, waits, finished)] = rows(
            "SELECT status, event_seq, step_seq, pending_action_id, pending_agent_call, finished_at FROM runs_run "
            "WHERE id = %s"
        )
        state = rows("SELECT s.data FROM runs_state s JOIN runs_run r ON r.state_id = s.id WHERE r.id = %s")
        operations = rows(
            "SELECT kind, status, coalesce(error::json->>'code', effect) FROM ledger_operation "
            "WHERE run_id = %s AND kind <> 'run'"
        )
        calls = rows("SELECT closed_as FROM agents_agentcall WHERE run_id = %s ORDER BY id")
        receipts = rows(
            "SELECT t.tool_call_id, t.status FROM agents_toolreceipt t JOIN agents_agentcall c ON c.id = t.call_id "
            "WHERE c.run_id = %s"
        )
        events = rows("SELECT seq, type FROM ledger_event WHERE run_id = %s ORDER BY seq")
        attempts = rows("SELECT step_seq, step, kind, status FROM runs_stepattempt WHERE run_id = %s ORDER BY step_seq")
    assert [seq for seq, _ in events] == list(range(1, event_seq + 1))
    assert [seq for seq, *_ in attempts] == list(range(step_seq))
    assert (asks is not None) + (waits is not None) == (status == "waiting")
    assert (finished is not None) == (status in ("completed", "failed", "cancelled"))
    assert sum(closed_as == "" for (closed_as,) in calls) == (waits is not None)
    return Story(
        status=status,
        state=json.loads(state[0][0]) if state else None,
        operations=Counter(operations),
        calls=[closed_as for (closed_as,) in calls],
        receipts=dict(receipts),
        events=[kind for _, kind in events],
        attempts=[(step, status) for _, step, kind, status in attempts if kind != "initialize"],
    )
