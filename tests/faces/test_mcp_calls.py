"""Tool calls on the running face: bounds of JSON, errors, incidents, threads, clients that go away."""

# ruff: noqa: F811 - the fixtures come from mcp_live
from __future__ import annotations

import json
import logging
import socket
import threading
import time
from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mcp_live import ENDPOINTS, INTERACTIONS, SECRET_SQL, Live, _server, effects, live  # noqa: F401
from mcp_session import open_session

from apps.access.domain.entries import MCP_ENTRIES
from apps.access.services.throttling import failure_counts
from apps.core import clock, threads
from apps.core.errors import RETRYABLE, ErrorCode
from apps.core.exchange import Head
from apps.mcp.answering import answer
from apps.mcp.handshake import Asked
from apps.mcp.tools import EntryServer


def call(live: Live, name: str, arguments: str) -> Any:
    """The result of a Tool called with this very JSON text."""
    body = f'{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"{name}","arguments":{arguments}}}}}'
    found = live.send(body.encode())
    assert found.status == 200, found.body
    return found.json["result"]


@pytest.mark.rule("K23", "E3", "FR-D1", "FR-D5", "FR-D7", "FR-D13")
@pytest.mark.parametrize(
    ("arguments", "code", "path"),
    [
        (r'{"value":"what\u0000ever"}', "nul", "/value"),
        (r'{"value":{"a/b":["\ud83d"]}}', "surrogate", "/value/a~1b/0"),
        (r'{"value":{"\ud83d":1}}', "surrogate", r"/value/\ud83d"),
        ('{"value":9007199254740992}', "integer_range", "/value"),
        ('{"value":%s}' % ("9" * 5000), "integer_range", "/value"),
        ('{"value":NaN}', "number", "/value"),
        ('{"value":[1,-Infinity]}', "number", "/value/1"),
        ('{"value":1e400}', "number", "/value"),
        ('{"value":1,"value":2}', "duplicate_key", "/value"),
        ('{"value":' + '{"a":' * 70 + "1" + "}" * 71, "depth", "/value" + "/a" * 64),
        ("[]", "type", ""),
        ('"x"', "type", ""),
        ("7", "type", ""),
        ("false", "type", ""),
        ("{}", "required", "/value"),
    ],
    ids=lambda value: str(value)[:24],
)
def test_arguments_out_of_bounds_are_a_tool_result_with_a_pointer(
    live: Live, arguments: str, code: str, path: str
) -> None:
    first = call(live, "echo", arguments)
    assert first["isError"] is True
    error = first["structuredContent"]["error"]
    assert (error["code"], error["retryable"]) == ("INVALID_REQUEST", False)
    assert (code, path) in [(issue["code"], issue["path"]) for issue in error["validation"]["issues"]]
    assert call(live, "echo", arguments) == first, "an unchanged retry gets the identical answer"
    assert effects.done == []


@pytest.mark.rule("FR-D13")
@pytest.mark.parametrize("depth", [999, 1001, 2001])
def test_nesting_of_any_depth_is_refused_naming_the_limit(live: Live, depth: int) -> None:
    nested = '{"a":' * depth + "1" + "}" * depth
    found = live.send(
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"value":%s}}}'
        % nested.encode()
    )
    assert found.status in (200, 400)
    assert b"Nest at most 64 levels." in found.body
    assert effects.done == []


@pytest.mark.rule("N6")
@pytest.mark.parametrize("absent", ['"params":{"name":"claim"}', '"params":{"name":"claim","arguments":null}'])
def test_missing_arguments_mean_none(live: Live, absent: str) -> None:
    effects.go_on.set()
    found = live.send(b'{"jsonrpc":"2.0","id":1,"method":"tools/call",%s}' % absent.encode())
    assert found.json["result"]["structuredContent"] == {}


@pytest.mark.rule("FR-D11", "FR-D17")
@pytest.mark.parametrize(
    "value", ["\u2028\u2029\x7f\x01", "</script>", 0.2345678901234568, 1e22, -0.0, "wörter 🧵" * 3000, [[], {}, None]]
)
def test_any_storable_value_comes_back_as_it_was(live: Live, value: Any) -> None:
    result = call(live, "echo", json.dumps({"value": value}))
    assert result["structuredContent"]["value"] == value
    assert json.loads(result["content"][0]["text"]) == result["structuredContent"]


@pytest.mark.rule("E1", "E2")
@pytest.mark.parametrize("code", list(ErrorCode))
def test_every_business_error_is_a_tool_result_with_its_attachments(live: Live, code: ErrorCode) -> None:
    result = call(live, "refuse", json.dumps({"code": code.value}))
    assert result["isError"] is True
    body = result["structuredContent"]
    assert body["error"] == {"code": code, "message": f"Refused as {code}.", "retryable": code in RETRYABLE}
    assert body["receipt"] == {"operationId": "0198c1f2-7c7e-7000-8000-000000000000"}
    assert json.loads(result["content"][0]["text"]) == body


@pytest.mark.rule("N6", "E1")
def test_success_and_error_both_fit_the_listed_output_schema(live: Live) -> None:
    listed = {tool["name"]: tool for tool in live.legacy("tools/list").json["result"]["tools"]}
    for name, arguments in (("echo", {"value": [1]}), ("echo", {}), ("refuse", {"code": "BUSY"}), ("crash", {})):
        body = call(live, name, json.dumps(arguments))["structuredContent"]
        jsonschema.Draft202012Validator(listed[name]["outputSchema"]).validate(body)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"neither": 1}, listed["echo"]["outputSchema"])


@pytest.mark.rule("E6", "K26")
def test_an_unforeseen_exception_is_internal_with_an_incident_that_the_log_explains(
    live: Live, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR, "loomsvc.mcp"):
        result = call(live, "crash", "{}")
    error = result["structuredContent"]["error"]
    assert (error["code"], error["retryable"]) == ("INTERNAL", False)
    incident = error["details"]["incident"]
    assert incident in error["message"]
    assert "SELECT" not in json.dumps(result)
    assert "/srv" not in json.dumps(result)
    record = next(record for record in caplog.records if incident in record.getMessage())
    assert record.exc_info is not None
    assert SECRET_SQL in str(record.exc_info[1])


@pytest.mark.rule("E1", "F12")
def test_a_lost_ledger_is_unavailable_and_may_be_tried_again(live: Live) -> None:
    result = call(live, "lose_ledger", "{}")
    error = result["structuredContent"]["error"]
    assert (error["code"], error["retryable"]) == ("UNAVAILABLE", True)
    assert "SELECT" not in json.dumps(result)


@pytest.mark.rule("N5")
def test_a_call_that_blocks_does_not_hold_up_others(live: Live) -> None:
    waiting = [threading.Thread(target=call, args=(live, "wait", "{}")) for _ in range(4)]
    for thread in waiting:
        thread.start()
    assert effects.begun.wait(5)
    begun = time.monotonic()
    assert live.legacy("ping").status == 200
    assert time.monotonic() - begun < 2
    effects.go_on.set()
    for thread in waiting:
        thread.join(10)
    assert effects.done == ["wait"] * 4


@pytest.mark.rule("F18")
def test_a_client_that_goes_away_does_not_undo_its_call(live: Live) -> None:
    body = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"wait"}}'
    head = (
        f"POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {live.tokens['agent_ide']}\r\n"
        f"Accept: */*\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    connection = socket.create_connection(("127.0.0.1", live.port))
    connection.sendall(head.encode() + body)
    assert effects.begun.wait(5)
    connection.close()
    effects.go_on.set()
    for _ in range(500):
        if effects.done:
            break
        time.sleep(0.01)
    assert effects.done == ["wait"]
    assert live.legacy("ping").status == 200


@pytest.mark.rule("F18")
def test_a_request_cut_anywhere_has_no_effect(live: Live) -> None:
    body = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"value":1}}}'
    whole = (
        f"POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {live.tokens['agent_ide']}\r\n"
        f"Accept: */*\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    ).encode() + body
    for offset in range(1, len(whole), len(whole) // 20):
        with socket.create_connection(("127.0.0.1", live.port)) as connection:
            connection.sendall(whole[:offset])
    assert live.legacy("ping").status == 200
    assert effects.done == []


@pytest.mark.rule("F12")
def test_more_requests_than_can_wait_are_503_with_retry_after(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "MAX_WAITING", -threads.THREADS)
    found = live.legacy("ping")
    assert found.status == 503
    assert int(found.headers["retry-after"]) <= 10
    assert found.json["error"]["data"]["code"] == "UNAVAILABLE"


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(exclude_categories=()), max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=20,
)
METHODS = st.sampled_from(["ping", "initialize", "tools/list", "tools/call", "server/discover", "x", "notifications/x"])
KEYS = st.sampled_from(
    [
        "name", "arguments", "cursor", "protocolVersion", "capabilities", "clientInfo", "_meta", "requestState",
        "inputResponses", "progressToken", "requestId", "text",
        "io.modelcontextprotocol/protocolVersion", "io.modelcontextprotocol/clientCapabilities",
    ]
)  # fmt: skip
PARAMS = st.dictionaries(
    KEYS, JSON | st.sampled_from(["echo", "refuse", "ask"]) | st.dictionaries(KEYS, JSON, max_size=3)
)
ENVELOPES = st.fixed_dictionaries(
    {"jsonrpc": st.just("2.0") | JSON, "method": METHODS | JSON},
    optional={"id": st.integers() | JSON, "params": PARAMS},
)
ANSWERS = st.fixed_dictionaries(
    {"jsonrpc": st.just("2.0"), "id": st.uuids().map(str) | JSON},
    optional={"result": JSON | st.fixed_dictionaries({"action": JSON, "content": JSON}), "error": JSON},
)
BODIES = (
    st.binary(max_size=200)
    | st.text(max_size=100).map(lambda text: text.encode("utf-8", "surrogatepass"))
    | (JSON | ENVELOPES | ANSWERS).map(lambda value: json.dumps(value).encode())
)


@pytest.mark.rule("K23", "K26")
@settings(max_examples=400, deadline=2000, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    body=BODIES,
    version=st.sampled_from([None, "2025-11-25", "2026-07-28", "x"]),
    method=METHODS,
    tool=st.sampled_from(["echo", "ask"]),
    in_session=st.booleans(),
)
def test_no_body_makes_the_face_fail(
    live: Live, body: bytes, version: str | None, method: str, tool: str, in_session: bool
) -> None:
    headers = {
        "authorization": f"Bearer {live.tokens['agent_ide']}",
        "accept": "*/*",
        "content-type": "application/json",
        "mcp-method": method,
        "mcp-name": tool,
        **({"mcp-protocol-version": version} if version else {}),
        **({"mcp-session-id": _session_of(live)} if in_session else {}),
    }
    server = _server_under_test()
    reply = answer(server, Head("POST", b"", headers, "127.0.0.1"), body, clock.now())
    if isinstance(reply, Asked):
        assert reply.ask.message
        return
    assert reply.status in (200, 202, 400, 404)
    if reply.body:
        found = json.loads(reply.body)
        assert ("result" in found) != ("error" in found)


_servers: list[EntryServer] = []


def _server_under_test() -> EntryServer:
    if not _servers:
        served = [endpoint for endpoint in ENDPOINTS if endpoint.name in ("echo", "refuse", "ask")]
        _servers.append(EntryServer(MCP_ENTRIES[0], served, INTERACTIONS))
    return _servers[0]


_sessions: dict[str, str] = {}


def _session_of(live: Live) -> str:
    """One session for all the bodies that a test sends."""
    token = live.tokens["agent_ide"]
    if token not in _sessions:
        _sessions[token] = open_session(live).id
    return _sessions[token]


@pytest.mark.rule("K24")
def test_failed_attempts_are_counted_by_real_address(live: Live) -> None:
    live.send(b"{}", headers={"Authorization": "Bearer bad"})
    live.send(b"{}", headers={"Authorization": None})
    assert len(failure_counts) == 1
