"""What clients see of the background agent Tools: their declaration, their errors over MCP and over REST."""

# ruff: noqa: F811 - the fixtures come from site_live
from __future__ import annotations

import uuid
from typing import Any

import pytest
from site_live import ENTRY_OF, Site, _site_port, site  # noqa: F401

NAMES = ("list_models", "run_agent", "agent_status", "cancel_agent")
SIX = ["agent_session_id", "state", "program_digest", "output", "error", "usage"]


def listed(site: Site, entry: str) -> dict[str, Any]:
    tools = site.mcp({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}, entry=entry).json["result"]["tools"]
    return {tool["name"]: tool for tool in tools}


@pytest.mark.rule("B3", "N6")
@pytest.mark.parametrize("entry", list(ENTRY_OF))
def test_the_status_tool_is_declared_as_its_document_has_it(site: Site, entry: str) -> None:
    tools = listed(site, entry)
    assert set(NAMES) <= set(tools)
    status = tools["agent_status"]
    assert status["inputSchema"]["required"] == ["id", "session_secret"]
    assert {name: status["inputSchema"]["properties"][name]["type"] for name in ("id", "session_secret")} == {
        "id": "string",
        "session_secret": "string",
    }
    success, refusal = status["outputSchema"]["anyOf"]
    assert list(success["properties"]) == success["required"] == SIX
    assert success["properties"]["state"]["enum"] == ["queued", "running", "succeeded", "failed", "cancelled"]
    assert refusal["required"] == ["error", "request_id"]
    hints = status["annotations"]
    assert (hints["readOnlyHint"], hints["destructiveHint"], hints["idempotentHint"]) == (True, False, True)
    assert tools["run_agent"]["annotations"]["idempotentHint"] is False


@pytest.mark.rule("B2", "B4", "E2", "K2", "K6")
def test_rest_has_the_same_envelope_with_the_status_of_its_code(site: Site) -> None:
    unknown = f"/api/v1/agents/{uuid.uuid4()}/status"
    for path, body, token, status, code in (
        ("/api/v1/agents", {"model": "offline"}, "studio", 400, "invalid_request"),
        ("/api/v1/agents", b"{", "studio", 400, "invalid_request"),
        (unknown, {"session_secret": "x"}, "studio", 404, "not_found"),
        (unknown, {"session_secret": None}, "studio", 400, "invalid_request"),
        (unknown, {"session_secret": "x"}, None, 401, "unauthenticated"),
        (unknown, {"session_secret": "x"}, "cli", 403, "forbidden"),
    ):
        reply = site.send("POST", path, body, token=token)
        assert (reply.status, reply.headers["content-type"]) == (status, "application/json"), reply.body
        assert reply.headers["cache-control"] == "no-store"
        said = reply.json
        assert set(said) == {"error", "request_id"} and said["error"]["code"] == code
        assert set(said["error"]) == {"code", "reason", "message", "recovery", "agent_session_id", "validation"}
    started = site.send("POST", "/api/v1/agents", {"model": "offline", "input": "hello"})
    assert started.status == 200 and started.headers["cache-control"] == "no-store"
    proof = started.json
    shown = site.send("POST", f"/api/v1/agents/{proof['id']}/status", {"session_secret": proof["session_secret"]})
    assert list(shown.json) == SIX
    over_mcp = site.tool("agent_status", {"id": proof["id"], "session_secret": proof["session_secret"]})
    assert over_mcp["structuredContent"] == shown.json, "one service behind all doors"
    ended = site.send("POST", f"/api/v1/agents/{proof['id']}/cancel", {"session_secret": proof["session_secret"]})
    wrong = site.tool("agent_status", {"id": proof["session_secret"], "session_secret": proof["session_secret"]})
    for later in (shown.body.decode(), ended.body.decode(), str(over_mcp), str(wrong)):
        assert proof["session_secret"].rpartition("_")[2] not in later, "the secret is in one response"


@pytest.mark.rule("B4", "E3")
def test_an_invalid_call_over_mcp_is_a_tool_result_that_is_the_same_again(site: Site) -> None:
    first, second = (site.tool("agent_status", {"id": 1, "more": True}) for _ in range(2))
    assert first["isError"] is True
    error = first["structuredContent"]["error"]
    assert error["validation"] == {
        "contract": "AgentStatusRequest",
        "issues": [
            {"code": "type", "path": "/id", "suggestion": "Input should be a valid string."},
            {"code": "required", "path": "/session_secret", "suggestion": "Add the required `session_secret` field."},
            {
                "code": "unknown_member",
                "path": "/more",
                "suggestion": "Remove `more`; it is not a member of this shape.",
            },
        ],
        "truncated": False,
    }
    assert second["structuredContent"]["error"] == error


@pytest.mark.rule("K4", "K6")
def test_a_session_secret_in_an_address_is_refused_before_it_is_looked_at(site: Site) -> None:
    proof = site.tool("run_agent", {"model": "offline", "input": "hello"})["structuredContent"]
    id, secret = proof["id"], proof["session_secret"]
    for path in (f"/agents/{id}/status?session_secret={secret}", f"/agents/{secret}"):
        reply = site.send("POST", f"/api/v1{path}", {})
        assert reply.status in (400, 404) and secret.encode() not in reply.body
