"""Tools of agents over real connections: slow ones delay nobody, and one whose client left runs to its end."""

# ruff: noqa: F811 - the fixtures come from site_live
from __future__ import annotations

import json
import socket
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from site_live import Site, _site_port, identity, site  # noqa: F401

from apps.agents.models import ToolReceipt
from apps.core.threads import LONG_THREADS

pytestmark = pytest.mark.django_db(transaction=True)


def claimed(site: Site, service: Any, **plan: Any) -> dict[str, str]:
    """A Run of ``assist`` whose agent call is claimed over ``/mcp``; the owned reference."""
    run = site.tool("run", {**identity(service), "loomName": "assist", "input": plan}, entry="/mcp")
    run_id = run["structuredContent"]["run"]["runId"]
    service.work()
    call_id = service.run(run_id)["pendingAgentCall"]["id"]
    reference = {"runId": run_id, "callId": call_id}
    claim = site.tool("claim_agent_call", {**reference, "claimId": str(uuid.uuid4())}, entry="/mcp")
    return {**reference, "ownerToken": claim["structuredContent"]["ownerToken"]}


def message(owned: dict[str, str], tool: str, call_id: str, **arguments: Any) -> bytes:
    asked = {**owned, "toolCallId": call_id, "toolId": tool, "input": arguments}
    params = {"name": "call_agent_tool", "arguments": asked}
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()


def until(condition: Any) -> None:
    ends = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < ends
        threading.Event().wait(0.02)


@pytest.mark.rule("A3", "F18")
@pytest.mark.parametrize("name", [b"call_agent_tool", b"c\\u0061ll_agent_tool", b"call\\u005Fagent_tool"])
def test_as_many_slow_tools_as_there_are_threads_for_them_delay_no_other_request(
    site: Site, service: Any, tmp_path: Path, name: bytes
) -> None:
    gate = tmp_path / "gate"
    tasks = [claimed(site, service, gate=str(gate)) for _ in range(LONG_THREADS)]
    slow = [message(owned, "linger", "slow").replace(b"call_agent_tool", name) for owned in tasks]
    with ThreadPoolExecutor(LONG_THREADS) as clients:
        answers = [clients.submit(site.mcp, body, entry="/mcp") for body in slow]
        try:
            until(lambda: ToolReceipt.objects.filter(status="running").count() == LONG_THREADS)
            for owned in tasks:
                began = time.monotonic()
                run = site.tool("get_run", {"runId": owned["runId"]}, entry="/mcp")["structuredContent"]["run"]
                assert run["pendingAgentCall"]["phase"] == "claimed"
                assert time.monotonic() - began < 5
            refused = site.tool("complete_agent_call", {**tasks[0], "result": {}}, entry="/mcp")
            assert refused["structuredContent"]["error"]["code"] == "INVALID_REQUEST"
        finally:
            gate.touch()
        for answer in answers:
            receipt = answer.result().json["result"]["structuredContent"]["receipt"]
            assert receipt["status"] == "completed"


@pytest.mark.rule("A3", "F18")
def test_a_tool_whose_client_has_left_runs_to_its_end_and_its_receipt_is_there(
    site: Site, service: Any, tmp_path: Path
) -> None:
    gate, mark = tmp_path / "gate", tmp_path / "mark"
    owned = claimed(site, service, gate=str(gate), mark=str(mark))
    body = message(owned, "linger", "left alone")
    head = (
        f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{site.port}\r\nAuthorization: Bearer {site.tokens['agent_ide']}\r\n"
        "Accept: application/json, text/event-stream\r\nContent-Type: application/json\r\n"
        f"MCP-Protocol-Version: 2025-11-25\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", site.port), timeout=20) as connection:
        connection.sendall(head.encode() + body)
        until(mark.exists)
    gate.touch()
    until(lambda: ToolReceipt.objects.get().status != "running")
    again = site.mcp(body, entry="/mcp").json["result"]["structuredContent"]
    assert (again["receipt"]["status"], again["output"]) == ("completed", {"lines": 1})
    assert ToolReceipt.objects.count() == 1
