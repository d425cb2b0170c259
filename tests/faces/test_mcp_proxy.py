"""The stdio proxy before the real face, in both eras (N4, F19)."""

# ruff: noqa: F811 - the fixtures come from mcp_live
from __future__ import annotations

import io
import json
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp_live import LEGACY, Live, _server, effects, live, modern_meta  # noqa: F401
from proxied import TOKEN, Proxied, connect, proxied

from apps.access.domain.entries import MCP_ENTRIES
from apps.mcp import stdio
from apps.mcp.mirrored import encode_header, mirrored_headers
from apps.mcp.modern import decode_header

pytestmark = pytest.mark.rule("N4", "F19")

#: ``€`` takes three bytes, so one of three lengths of padding puts a boundary inside it.
EURO = "€"


def entries(live: Live) -> dict[str, dict[str, str]]:
    return {entry.name: {"path": entry.path, "token": live.tokens[entry.source.value]} for entry in MCP_ENTRIES}


@pytest.fixture
def client(live: Live, tmp_path: Path) -> Iterator[Proxied]:
    connect(tmp_path, live.port, entries=entries(live))
    with proxied(tmp_path) as made:
        yield made


def structured(answer: Any) -> Any:
    return answer["result"]["structuredContent"]


@pytest.mark.rule("N5")
@pytest.mark.parametrize("version", LEGACY)
def test_a_client_of_the_older_revisions_is_bridged(client: Proxied, version: str) -> None:
    opened = client.open(version)
    assert opened["protocolVersion"] == version
    assert opened["serverInfo"]["name"] == "loomsvc"
    assert client.ask("ping")["result"] == {}
    names = {tool["name"] for tool in client.ask("tools/list")["result"]["tools"]}
    assert {"echo", "claim"} <= names
    client.call("echo", {"value": "wörter 🧵"}, id="a")
    assert structured(client.receive()) | {"principal": ""} == {
        "value": "wörter 🧵",
        "principal": "",
        "entry": "/mcp",
    }


@pytest.mark.rule("N5")
def test_a_client_of_the_stateless_revision_is_bridged_without_a_handshake(client: Proxied) -> None:
    found = client.ask("server/discover", {"_meta": modern_meta()})["result"]
    assert "2026-07-28" in found["supportedVersions"]
    client.call("echo", {"value": [1]}, id=2, meta=modern_meta())
    answer = client.receive()
    assert structured(answer)["value"] == [1]
    assert answer["result"]["resultType"] == "complete"


@pytest.mark.rule("N5")
def test_what_only_the_headers_could_get_wrong_is_refused_by_the_service_itself(client: Proxied) -> None:
    client.call("grüße ", id=1, meta=modern_meta())
    assert client.receive()["error"]["code"] == -32602, "the name arrived; there is no such Tool"
    client.send("nö\n", {"_meta": modern_meta()}, id=2)
    assert client.receive()["id"] == 2
    client.call("echo", {"value": 1}, id=3, meta=modern_meta("2031-01-01"))
    assert client.receive()["error"]["code"] == -32022


@pytest.mark.rule("FR-D17")
@pytest.mark.parametrize("size", [8_193, 65_537, 1024 * 1024])
@pytest.mark.parametrize("shift", range(3))
def test_a_long_request_arrives_whole_with_characters_across_every_boundary(
    client: Proxied, size: int, shift: int
) -> None:
    def request(text: str) -> bytes:
        params = {"name": "echo", "arguments": {"value": text}, "_meta": modern_meta()}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        return json.dumps(message, ensure_ascii=False).encode()

    room = size - len(request("")) - shift
    text = "." * shift + EURO * (room // 3) + "." * (room % 3)
    sent = request(text)
    assert len(sent) == size
    client.write(sent + b"\n")
    answer = client.receive()
    assert answer["id"] == 1
    assert structured(answer)["value"] == text


def test_what_is_longer_than_the_service_takes_is_refused_by_its_id(client: Proxied) -> None:
    client.call("echo", {"value": "x" * (2 * 1024 * 1024)}, id="long")
    answer = client.receive()
    assert answer["id"] == "long"
    assert "longer" in answer["error"]["message"]


def test_a_line_beyond_all_bounds_is_refused_and_the_next_is_served(client: Proxied) -> None:
    client.write(b'{"jsonrpc": "2.0", "id": 1, "method": "' + b"x" * stdio.MAX_LINE_BYTES + b'"}\n')
    answer = client.receive()
    assert answer["id"] is None
    assert answer["error"]["code"] == -32600
    assert client.ask("ping", id=2)["result"] == {}


@pytest.mark.parametrize(
    ("line", "code", "request_id"),
    [
        (b"{", -32700, None),
        (b"\xff", -32700, None),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "ping"} {}', -32700, None),
        (b"[" * 100_000, -32700, None),
        (b'[{"jsonrpc": "2.0", "id": 1, "method": "ping"}]', -32600, None),
        (b'"ping"', -32600, None),
        (b'{"jsonrpc": "2.0", "id": null, "method": "ping"}', -32600, None),
        (b'{"jsonrpc": "2.0", "id": 1.5, "method": "ping"}', -32600, None),
        (b'{"jsonrpc": "2.0", "id": true, "method": "ping"}', -32600, None),
        (b'{"jsonrpc": "2.0", "id": 7}', -32600, 7),
        (b'{"jsonrpc": "2.0", "id": 7, "method": 1}', -32600, 7),
        (b'{"jsonrpc": "2.0", "result": {}}', -32600, None),
        (b'{"jsonrpc": "1.0", "id": 7, "method": "ping"}', -32600, 7),
        (b'{"jsonrpc": "2.0", "id": 7, "method": "ping", "params": []}', -32602, 7),
    ],
)
def test_what_is_no_message_is_answered_as_that_and_the_next_is_served(
    client: Proxied, line: bytes, code: int, request_id: Any
) -> None:
    client.write(line + b"\n\n  \r\n")
    answer = client.receive()
    assert (answer["error"]["code"], answer["id"]) == (code, request_id)
    assert client.ask("ping", id="next")["result"] == {}


def test_a_long_call_holds_no_other_up(client: Proxied) -> None:
    client.open()
    client.call("wait", id="long")
    assert effects.begun.wait(10)
    for number in range(20):
        client.call("echo", {"value": number}, id=number)
    answers = [client.receive() for _ in range(20)]
    assert {answer["id"] for answer in answers} == set(range(20))
    assert all(structured(answer)["value"] == answer["id"] for answer in answers)
    client.call("echo", {"value": 1}, id="long")
    assert client.receive()["error"]["code"] == -32600, "its id is taken as long as it is under way"
    effects.go_on.set()
    assert client.receive()["id"] == "long"


@pytest.mark.rule("FR-F3")
def test_a_cancelled_call_is_given_up_and_nothing_is_said_of_it_again(client: Proxied) -> None:
    client.open()
    client.call("wait", id=9)
    assert effects.begun.wait(10)
    client.send("notifications/cancelled", {"requestId": 9})
    client.send("notifications/cancelled", {"requestId": "never was"})
    client.send("notifications/cancelled", {"requestId": [1]})
    client.call("wait", id=9)
    client.send("notifications/cancelled", {"requestId": 9})
    # Messages are taken in their order: once this is answered, the cancellation was seen.
    assert client.ask("ping", id="seen")["result"] == {}
    effects.go_on.set()
    assert client.ask("ping", id="next")["result"] == {}
    client.leave()
    assert client.lines.empty()


def test_no_service_is_said_at_each_request_until_one_runs(live: Live, tmp_path: Path) -> None:
    with proxied(tmp_path) as client:
        for method in ("initialize", "tools/list", "ping"):
            error = client.ask(method, {"protocolVersion": "2025-11-25"})["error"]
            assert "No loomsvc runs" in error["message"]
            assert "loomsvc up" in error["message"]
            assert error["data"]["retryable"] is True
        client.send("notifications/initialized")
        connect(tmp_path, live.port, entries=entries(live))
        client.open()
        assert client.ask("tools/list")["result"]["tools"]


def test_a_dead_services_file_and_a_closed_port_are_no_service(live: Live, tmp_path: Path) -> None:
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    with proxied(tmp_path) as client:
        connect(tmp_path, live.port, entries=entries(live), pid=dead.pid)
        assert "No loomsvc runs" in client.ask("ping")["error"]["message"], "whoever has its port is somebody else"
        connect(tmp_path, 9)
        assert "No loomsvc runs" in client.ask("ping")["error"]["message"]
        (tmp_path / "connection.json").write_text("{")
        assert "No loomsvc runs" in client.ask("ping")["error"]["message"]


@pytest.mark.rule("N1")
def test_the_codex_entry_is_entered_and_never_another_in_its_place(live: Live, tmp_path: Path) -> None:
    connect(tmp_path, live.port, entries=entries(live))
    with proxied(tmp_path, "codex") as client:
        client.call("echo", {"value": 1}, meta=modern_meta())
        answer = structured(client.receive())
        assert (answer["entry"], answer["profile"]) == ("/mcp/codex", "codex")
        for damaged in ({}, {"path": "/mcp/codex"}, {"token": TOKEN}, "nothing"):
            connect(tmp_path, live.port, entries={**entries(live), "codex": damaged})  # type: ignore[dict-item]
            error = client.ask("ping")["error"]
            assert "codex" in error["message"]
        others = {name: entry for name, entry in entries(live).items() if name != "codex"}
        connect(tmp_path, live.port, entries=others)
        assert "codex" in client.ask("ping")["error"]["message"]
    assert effects.done == ["echo"]


@pytest.mark.rule("N2", "E6")
def test_a_credential_that_is_no_longer_taken_is_said_and_not_shown(
    live: Live, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    connect(tmp_path, live.port)
    caplog.set_level(logging.DEBUG, "loomsvc")
    with proxied(tmp_path) as client:
        client.send("ping", id=1)
        line = client.lines.get(timeout=10)
        client.send("notifications/progress")
    answer = json.loads(line)
    assert answer["error"]["data"]["code"] == "UNAUTHENTICATED"
    assert "loomsvc up" in answer["error"]["message"]
    assert "was not delivered" in caplog.text
    assert TOKEN not in line.decode() + caplog.text


@pytest.mark.rule("N2")
def test_a_proxy_of_the_environment_never_sees_the_credential(
    live: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    connect(tmp_path, live.port, entries=entries(live))
    with proxied(tmp_path) as client:
        assert client.ask("ping")["result"] == {}


def test_requests_under_way_are_given_up_when_the_client_leaves(client: Proxied) -> None:
    client.call("wait")
    assert effects.begun.wait(10)
    assert client.leave() < 2


def test_what_can_still_be_answered_is_when_the_client_leaves(client: Proxied) -> None:
    client.write(b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}')
    assert client.leave() < 2
    assert client.receive()["result"] == {}


def test_it_ends_when_nobody_reads_any_more(live: Live, tmp_path: Path) -> None:
    from apps.mcp.proxy import serve

    connect(tmp_path, live.port, entries=entries(live))
    proxy_in, to_proxy = os.pipe()
    from_proxy, proxy_out = os.pipe()
    os.close(from_proxy)

    def run() -> None:
        with open(proxy_in, "rb", buffering=0) as stdin, open(proxy_out, "wb", buffering=0) as stdout:
            anyio.run(serve, tmp_path, "agent_ide", io.BufferedReader(stdin), stdout)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    os.write(to_proxy, b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n')
    began = time.monotonic()
    thread.join(10)
    assert not thread.is_alive()
    assert time.monotonic() - began < 5
    os.close(to_proxy)


@pytest.mark.parametrize(
    "name", ["echo", "grüße", " a", "a ", "", "a\tb", "a\nb", "\x7f", "=?base64?YQ==?=", "a b", "🧵"]
)
def test_a_name_survives_its_header(name: str) -> None:
    header = encode_header(name)
    assert header.isascii()
    assert header == header.strip()
    assert header.isprintable()
    assert decode_header(header) == name


def test_each_method_mirrors_what_names_its_object() -> None:
    meta = {"_meta": modern_meta()}
    own = {"mcp-protocol-version": "2026-07-28"}
    both = {"name": "n", "uri": "file:///u", **meta}
    assert mirrored_headers("tools/call", both) == {**own, "mcp-method": "tools/call", "mcp-name": "n"}
    assert mirrored_headers("prompts/get", both) == {**own, "mcp-method": "prompts/get", "mcp-name": "n"}
    assert mirrored_headers("resources/read", both) == {**own, "mcp-method": "resources/read", "mcp-name": "file:///u"}
    assert mirrored_headers("tools/list", both) == {**own, "mcp-method": "tools/list"}
    assert mirrored_headers("tools/call", {"name": 1, **meta}) == {**own, "mcp-method": "tools/call"}
    assert "mcp-protocol-version" not in mirrored_headers("tools/list", {"_meta": modern_meta(version=1)})
