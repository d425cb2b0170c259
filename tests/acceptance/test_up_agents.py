"""Agents of a ``loomsvc up``, on SQLite, whose one process is killed while it runs a Tool."""

# ruff: noqa: F811 - the fixture comes from local_service
from __future__ import annotations

import signal
import sqlite3
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from local_service import Services, Up, services  # noqa: F401

from tests.acceptance.agent_at_work import GONE, waiting_agent
from tests.acceptance.scaled import Client, eventually

BRIEF = {"LOOMSVC_LEASE_SECONDS": "2", "LOOMSVC_SWEEP_SECONDS": "0.5"}


def client_of(up: Up) -> Client:
    port = urlsplit(up.url).port
    assert port is not None
    return Client(port, {source: entry["token"] for source, entry in up.connection["entries"].items()})


def sql(up: Up, statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
    """The ledger beside its service, as any reader of the file sees it."""
    connection = sqlite3.connect(up.folder / "ledger.sqlite3", timeout=20)
    try:
        with connection:
            return connection.execute(statement, parameters).fetchall()
    finally:
        connection.close()


@pytest.mark.rule("R13", "A1", "A5", "A10", "A11", "F15")
def test_an_agent_whose_service_is_killed_in_a_tool_finds_its_run_interrupted_and_its_receipts_for_half_an_hour(
    services: Services, tmp_path: Path
) -> None:
    first = services.up(tmp_path / "data", **BRIEF)
    agent, unclaimed = waiting_agent(client_of(first)), waiting_agent(client_of(first), claim=False)
    added = agent.tool("add", "one", line="before")
    with pytest.raises(GONE):
        agent.tool("die", "two")
    assert first.process.wait(10) == -signal.SIGKILL

    again = services.up(tmp_path / "data", **BRIEF)
    client = client_of(again)
    agent = agent.at(client)
    run = client.run(agent.run_id)
    assert (run["status"], run["lastError"]["code"], run["historical"]) == ("failed", "RUN_INTERRUPTED", True)
    view = agent.view()
    assert (view["closedAs"], view["pending"]) == ("interrupted", None)
    assert view["receipts"] == [
        {"toolCallId": "one", "toolId": "add", "status": "completed"},
        {"toolCallId": "two", "toolId": "die", "status": "indeterminate"},
    ]
    assert agent.tool("add", "one", line="before") == added
    assert agent.tool("die", "two")["receipt"]["status"] == "indeterminate", "it is not run again"
    for refused in (agent.tool("add", "three", line="late"), agent.complete(), agent.claim()):
        assert refused["error"]["code"] == "CONFLICT"
    assert client.run(agent.run_id) == run

    # The half hour begins when nothing of the Tool can go on any more: at the end of its lease.
    key = agent.call_id.replace("-", "")
    left = "SELECT (julianday(receipts_until) - julianday('now')) * 86400 FROM agents_agentcall WHERE id = ?"
    eventually(lambda: sql(again, left, key)[0][0], within=20, what="the Tool's lease ended")
    assert 1770 < sql(again, left, key)[0][0] <= 1800
    past = "strftime('%Y-%m-%d %H:%M:%f000', 'now', '-1 second')"
    sql(again, f"UPDATE agents_agentcall SET receipts_until = {past} WHERE id = ?", key)
    assert agent.view()["receipts"] == []
    assert agent.tool("add", "one", line="before")["error"]["code"] == "CONFLICT"
    eventually(
        lambda: sql(again, "SELECT count(*) FROM agents_toolreceipt WHERE call_id = ?", key) == [(0,)],
        within=20,
        what="the receipts are forgotten",
    )

    unclaimed = unclaimed.at(client)
    assert "ownerToken" in unclaimed.claim()
    assert unclaimed.complete()["receipt"]["status"] == "accepted"
    assert client.reaches(unclaimed.run_id, "completed", "failed")["status"] == "completed"
