"""JSON-RPC and both protocol eras, socket-level, on the running face."""

# ruff: noqa: F811 - the fixtures come from mcp_live
from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from mcp_live import LEGACY, MODERN, Live, _server, effects, live, modern_meta  # noqa: F401
from mcp_types.methods import serialize_server_result

ECHO = {"name": "echo", "arguments": {"value": 1}}
CAPABILITIES = {
    "tools": {"listChanged": False},
    "resources": {"subscribe": False, "listChanged": False},
    "prompts": {"listChanged": False},
    "completions": {},
}
IDS: list[Any] = ["1", 0, "", 2**53 + 1, -1, "x" * 1000, "ü\u2028"]


@pytest.mark.rule("FR-D21")
@pytest.mark.parametrize("request_id", IDS, ids=lambda value: repr(value)[:12])
def test_a_request_id_comes_back_as_it_was_sent(live: Live, request_id: Any) -> None:
    for method in ("ping", "no/such", "tools/call"):
        found = live.send({"jsonrpc": "2.0", "id": request_id, "method": method}).json["id"]
        assert found == request_id
        assert type(found) is type(request_id)


@pytest.mark.rule("FR-D21")
@pytest.mark.parametrize(
    "request_id", [None, True, False, 1.0, 1e3, [], {}, 10**100, -(10**200)], ids=lambda v: repr(v)[:12]
)
def test_an_id_that_cannot_be_given_back_as_it_is_is_400(live: Live, request_id: Any) -> None:
    answer = live.send({"jsonrpc": "2.0", "id": request_id, "method": "ping"})
    assert (answer.status, answer.error_code, answer.json["id"]) == (400, -32600, None)


@pytest.mark.rule("K23", "FR-D13", "FR-D19")
@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"nope", b'{"a":\xff}', b"[" * 20000 + b"]" * 20000, b'{"jsonrpc":"2.0","id":1,"method":"ping"}x'],
    ids=["empty", "cut", "word", "no utf-8", "deep", "trailing"],
)
def test_what_is_not_json_is_400_with_a_parse_error(live: Live, body: bytes) -> None:
    answer = live.send(body)
    assert (answer.status, answer.error_code) == (400, -32700)


@pytest.mark.rule("N5")
@pytest.mark.parametrize(
    "message",
    [
        [],
        [{"jsonrpc": "2.0", "id": 1, "method": "ping"}],
        "ping",
        1,
        None,
        {},
        {"jsonrpc": "1.0", "id": 1, "method": "ping"},
        {"jsonrpc": "2.0", "id": 1},
        {"jsonrpc": "2.0", "id": 1, "method": 7},
        {"jsonrpc": "2.0", "id": 1, "result": {}},
        {"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": ""}},
    ],
    ids=repr,
)
def test_what_is_no_single_request_is_400_invalid_request(live: Live, message: Any) -> None:
    answer = live.send(message)
    assert (answer.status, answer.error_code) == (400, -32600)


@pytest.mark.rule("K23")
@pytest.mark.parametrize(
    "body",
    [
        b'{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}',
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","name":"wait"}}',
    ],
)
def test_a_member_of_the_envelope_named_twice_is_refused(live: Live, body: bytes) -> None:
    answer = live.send(body)
    assert (answer.status, answer.error_code) == (400, -32600)


@pytest.mark.rule("N5")
@pytest.mark.parametrize("version", [None, *LEGACY, MODERN])
@pytest.mark.parametrize("method", ["notifications/initialized", "notifications/cancelled", "notifications/x"])
def test_a_notification_is_202_with_an_empty_body(live: Live, version: str | None, method: str) -> None:
    answer = live.send({"jsonrpc": "2.0", "method": method}, headers={"MCP-Protocol-Version": version})
    assert (answer.status, answer.body) == (202, b"")


# -- the initialize era -------------------------------------------------------------------------


def initialize(live: Live, version: str, **options: Any) -> Any:
    params = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    return live.legacy("initialize", params, version=None, **options)


@pytest.mark.rule("N5", "N7")
@pytest.mark.parametrize(
    ("asked", "given"),
    [*zip(LEGACY, LEGACY, strict=True), ("2024-11-05", LEGACY[0]), ("1999-01-01", LEGACY[0]), (MODERN, LEGACY[0])],
)
def test_initialize_agrees_on_the_asked_revision_or_offers_the_latest(live: Live, asked: str, given: str) -> None:
    answer = initialize(live, asked)
    result = answer.json["result"]
    assert result["protocolVersion"] == given
    assert result["capabilities"] == CAPABILITIES
    assert len(result["instructions"]) < 2000
    assert "resultType" not in result


@pytest.mark.rule("N5")
def test_an_invalid_version_header_is_400_and_an_absent_one_is_served(live: Live) -> None:
    for version in ("1999-01-01", "", "2024-11-05", "2025-11-25, 2025-11-25"):
        answer = live.legacy("tools/list", version=version)
        assert answer.status == 400
        assert answer.json["error"]["data"]["requested"] == version
    assert live.legacy("tools/list", version=None).status == 200


@pytest.mark.rule("N5")
@pytest.mark.parametrize(
    "method", ["resources/subscribe", "resources/unsubscribe", "logging/setLevel", "server/discover", "x"]
)
def test_methods_of_capabilities_that_are_not_declared_are_unknown(live: Live, method: str) -> None:
    answer = live.legacy(method)
    assert (answer.status, answer.error_code) == (200, -32601)


@pytest.mark.rule("N5")
def test_a_session_that_was_never_issued_is_404(live: Live) -> None:
    headers: dict[str, str | None] = {"Mcp-Session-Id": "0198c1f2"}
    assert live.legacy("ping", headers=headers).status == 404
    assert live.send({"jsonrpc": "2.0", "method": "notifications/initialized"}, headers=headers).status == 404
    assert initialize(live, LEGACY[0], headers=headers).status == 200


@pytest.mark.rule("N5", "E3")
@pytest.mark.parametrize("version", [None, *LEGACY])
def test_an_older_tool_call_has_its_results_and_faults_in_the_right_place(live: Live, version: str | None) -> None:
    result = live.legacy("tools/call", ECHO, version=version).json["result"]
    assert set(result) == {"content", "structuredContent", "isError"}
    assert json.loads(result["content"][0]["text"]) == result["structuredContent"]
    for params in ({"name": "nope"}, {"name": 7}, {}, {"arguments": {}}, []):
        answer = live.legacy("tools/call", params, version=version)
        assert answer.error_code == -32602
    assert live.legacy("tools/list", {"cursor": "x"}, version=version).error_code == -32602


# -- revision 2026-07-28 ------------------------------------------------------------------------


@pytest.mark.rule("N5")
def test_discover_lists_what_an_unsupported_version_is_told(live: Live) -> None:
    result = live.modern("server/discover").json["result"]
    assert result["supportedVersions"] == [MODERN]
    assert result["resultType"] == "complete"
    assert result["cacheScope"] == "private"
    assert result["ttlMs"] >= 0
    assert result["capabilities"] == CAPABILITIES
    answer = live.modern("tools/list", meta=modern_meta("2099-01-01"), headers={"MCP-Protocol-Version": "2099-01-01"})
    assert (answer.status, answer.error_code) == (400, -32022)
    assert answer.json["error"]["data"] == {"supported": result["supportedVersions"], "requested": "2099-01-01"}
    assert answer.json["id"] == 1


@pytest.mark.rule("N5")
@pytest.mark.parametrize(
    "meta",
    [
        None,
        {},
        {"io.modelcontextprotocol/protocolVersion": MODERN},
        {"io.modelcontextprotocol/clientCapabilities": {}},
        {**modern_meta(), "io.modelcontextprotocol/clientCapabilities": 7},
        {**modern_meta(), "io.modelcontextprotocol/clientInfo": "x"},
        "x",
    ],
    ids=repr,
)
def test_an_envelope_that_is_not_whole_is_400_invalid_params(live: Live, meta: Any) -> None:
    answer = live.modern("tools/list", meta=meta)
    assert (answer.status, answer.error_code) == (400, -32602)


def base64_of(text: str) -> str:
    return f"=?base64?{base64.b64encode(text.encode()).decode()}?="


@pytest.mark.rule("N5")
@pytest.mark.parametrize(
    "headers",
    [
        {"MCP-Protocol-Version": None},
        {"MCP-Protocol-Version": "2025-11-25"},
        {"MCP-Protocol-Version": "2099-01-01"},
        {"Mcp-Method": None},
        {"Mcp-Method": "tools/list"},
        {"Mcp-Method": "TOOLS/CALL"},
        {"Mcp-Name": None},
        {"Mcp-Name": "wait"},
        {"Mcp-Name": base64_of("wait")},
        {"Mcp-Name": "=?base64?ZWNobw?="},
        {"Mcp-Name": "=?base64?!!!?="},
        {"Mcp-Name": "=?base64?/w==?="},
    ],
    ids=repr,
)
def test_headers_that_say_something_else_than_the_body_are_400_header_mismatch(live: Live, headers: Any) -> None:
    answer = live.modern("tools/call", ECHO, headers=headers)
    assert (answer.status, answer.error_code) == (400, -32020)
    assert effects.done == []


@pytest.mark.rule("N5")
def test_a_routing_header_sent_twice_is_a_mismatch_too(live: Live) -> None:
    answer = live.modern("tools/call", ECHO, more=(("Mcp-Name", "echo"),))
    assert (answer.status, answer.error_code) == (400, -32020)


@pytest.mark.rule("N5")
def test_an_encoded_name_is_decoded_before_it_is_compared(live: Live) -> None:
    assert live.modern("tools/call", ECHO, headers={"Mcp-Name": base64_of("echo")}).status == 200
    answer = live.modern("tools/call", {"name": "jäger"}, headers={"Mcp-Name": base64_of("jäger")})
    assert (answer.status, answer.error_code) == (400, -32602)


@pytest.mark.rule("N5")
@pytest.mark.parametrize("method", ["ping", "initialize", "resources/subscribe", "subscriptions/listen", "x"])
def test_a_method_that_this_revision_has_not_is_404(live: Live, method: str) -> None:
    answer = live.modern(method)
    assert (answer.status, answer.error_code) == (404, -32601)


@pytest.mark.rule("N5", "E1")
def test_every_modern_result_says_that_it_is_complete(live: Live) -> None:
    for method, params in (("tools/list", None), ("server/discover", None), ("tools/call", ECHO)):
        result = live.modern(method, params).json["result"]
        assert result["resultType"] == "complete"
        assert result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "loomsvc"
    refused = live.modern("tools/call", {"name": "refuse", "arguments": {"code": "CONFLICT"}})
    assert refused.status == 200
    assert refused.json["result"]["resultType"] == "complete"
    assert refused.json["result"]["isError"] is True


@pytest.mark.rule("N5")
def test_a_request_state_that_was_not_issued_is_refused_and_extra_responses_are_ignored(live: Live) -> None:
    answer = live.modern("tools/call", {**ECHO, "requestState": "forged"})
    assert (answer.status, answer.error_code) == (400, -32602)
    assert effects.done == []
    responses = {"k": {"action": "decline"}}
    assert live.modern("tools/call", {**ECHO, "inputResponses": responses}).status == 200


@pytest.mark.rule("N5")
@pytest.mark.parametrize("version", [*LEGACY, MODERN])
def test_every_result_is_what_the_revision_s_own_types_would_write(live: Live, version: str) -> None:
    say = live.modern if version == MODERN else live.legacy
    for method, params in (("tools/list", None), ("tools/call", ECHO)):
        result = say(method, params).json["result"]
        again = serialize_server_result(method, version, result)
        assert again == result
