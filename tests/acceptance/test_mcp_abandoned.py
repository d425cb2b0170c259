"""Clients that come, ask and go without a word: what they cost a service that lives on (FR-F5, F18, F25)."""

# ruff: noqa: F811 - the fixtures come from local_service
from __future__ import annotations

import http.client
import json
import re
import time
import uuid
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from local_service import Services, Up, services  # noqa: F401

CLIENTS = 2000
#: Sessions and streams before the first measurement: pools, caches and the allocator have what they need.
WARM_UP = 200
INITIALIZE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"elicitation": {"form": {}}},
    "clientInfo": {"name": "passer-by", "version": "1"},
}


class Agent:
    """Says what it is told to, and leaves when it is told to."""

    def __init__(self, up: Up) -> None:
        self.host = up.url.removeprefix("http://")
        self.instance = up.connection["serviceInstanceId"]
        self.headers = {
            "Authorization": f"Bearer {up.connection['entries']['agent_ide']['token']}",
            "Accept": "application/json, text/event-stream",
            "Content-Type": "application/json",
        }

    def post(self, connection: Any, method: str, params: Any, **headers: str) -> http.client.HTTPResponse:
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        connection.request("POST", "/mcp", json.dumps(message), {**self.headers, **headers})
        response: http.client.HTTPResponse = connection.getresponse()
        return response

    def abandon(self, run: dict[str, Any]) -> bytes:
        """Open a session, have a form shown, and go; the first line of the form's message."""
        with closing(http.client.HTTPConnection(self.host, timeout=20)) as connection:
            opened = self.post(connection, "initialize", INITIALIZE)
            session = opened.headers["mcp-session-id"]
            opened.read()
            arguments = {
                "operationId": str(uuid.uuid4()),
                "serviceInstanceId": self.instance,
                "runId": run["runId"],
                "actionId": run["pendingAction"]["id"],
            }
            call = {"name": "interact", "arguments": arguments}
            headers = {"Mcp-Session-Id": session}
            while (asked := self.post(connection, "tools/call", call, **headers)).status == 429:
                asked.read()  # those who went before have not been missed yet
            line = asked.readline()
            asked.close()
            return line


def resident_megabytes(pid: int) -> float:
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found
    return int(found[1]) / 1024


@pytest.mark.rule("FR-F5", "F18", "F25")
@pytest.mark.timeout(300)
def test_two_thousand_abandoned_sessions_and_streams_leave_nothing_behind(services: Services, tmp_path: Path) -> None:
    up = services.up(tmp_path)
    agent = Agent(up)
    run = up.until(up.start("trial", {"do": [{"ending": "ask"}]}), "waiting")
    assert {agent.abandon(run) for _ in range(WARM_UP)} == {b"event: message\r\n"}
    before = resident_megabytes(up.process.pid)
    began = time.monotonic()
    assert {agent.abandon(run) for _ in range(CLIENTS)} == {b"event: message\r\n"}
    seconds = time.monotonic() - began
    grown = resident_megabytes(up.process.pid) - before
    assert grown < 10, f"{grown:.1f} MB in {seconds:.0f} s"
    print(f"{grown:.1f} MB in {seconds:.0f} s")
    assert up.run(run["runId"]) == run, "nobody answered, so nothing has changed"
    assert up.stop()[0] == 0
