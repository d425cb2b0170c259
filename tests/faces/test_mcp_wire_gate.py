"""What is refused before anyone asks what a message wants: socket-level, on the running face."""

# ruff: noqa: F811 - the fixtures come from mcp_live
from __future__ import annotations

import gzip
import json
import socket
import time
from typing import Any

import pytest
from django.db import OperationalError
from mcp_live import Live, _server, effects, live  # noqa: F401

from apps.access.domain.entries import MCP_ENTRIES
from apps.access.models import Credential
from apps.access.services.credentials import revoke_credential
from apps.core import clock, conf, exchange
from apps.mcp import answering

CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "echo", "arguments": {"value": 1}}}
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


@pytest.mark.rule("N3", "K7", "FR-F7")
@pytest.mark.parametrize("host", ["localhost", "localhost:{port}", "LOCALHOST:1", "127.0.0.1:{port}", "[::1]:{port}"])
def test_every_spelling_of_the_loopback_host_is_answered(live: Live, host: str) -> None:
    assert live.send(PING, headers={"Host": host.format(port=live.port)}).status == 200


@pytest.mark.rule("N3", "K7")
@pytest.mark.parametrize("host", ["evil.example", "localhost.", "localhost.:80", "", "127.0.0.1.evil.example", "a b"])
def test_a_foreign_host_is_refused_before_anything_happens(live: Live, host: str) -> None:
    answer = live.send(CALL, headers={"Host": host})
    assert 400 <= answer.status < 500
    assert effects.done == []


@pytest.mark.rule("N3", "K7")
@pytest.mark.parametrize(
    "origin",
    ["http://evil.example", "null", "", "http://localhost.", "https://localhost/path", "file://localhost", "localhost"],
)
def test_a_foreign_origin_is_403_even_with_a_valid_credential(live: Live, origin: str) -> None:
    assert live.send(CALL, headers={"Origin": origin}).status == 403
    assert effects.done == []


@pytest.mark.rule("N3", "K7")
@pytest.mark.parametrize("origin", ["http://localhost:3000", "HTTPS://LOCALHOST", "http://[::1]:9", None])
def test_an_allowed_origin_of_any_port_and_a_missing_one_are_fine(live: Live, origin: str | None) -> None:
    assert live.send(CALL, headers={"Origin": origin}).status == 200


@pytest.mark.rule("N3", "K7")
def test_two_hosts_or_two_origins_are_refused(live: Live) -> None:
    port = live.port
    assert live.send(CALL, more=(("Host", f"localhost:{port}"),)).status >= 400
    pair = (("Origin", "http://localhost"), ("Origin", "http://localhost"))
    assert live.send(CALL, more=pair).status == 403
    assert effects.done == []


@pytest.mark.rule("K4", "FR-H3")
@pytest.mark.parametrize("name", ["token", "access_token", "%74oken", "x"])
def test_a_token_in_the_query_string_is_400_and_not_repeated(live: Live, name: str) -> None:
    token = live.tokens["agent_ide"]
    for headers in ({}, {"Authorization": None}):
        answer = live.send(CALL, path=f"/mcp?{name}={token}", headers=headers)
        assert answer.status == 400
        assert token.encode() not in answer.body
    assert effects.done == []


@pytest.mark.rule("N1", "N3", "K9")
@pytest.mark.parametrize("path", [entry.path + slash for entry in MCP_ENTRIES for slash in ("", "/")])
@pytest.mark.parametrize("method", ["POST", "GET", "DELETE"])
def test_every_entry_asks_for_a_credential_first(live: Live, path: str, method: str) -> None:
    for authorization in (None, "", "Bearer", "Bearer nonsense", "Basic x", live.tokens["agent_ide"]):
        answer = live.send(PING, path=path, method=method, headers={"Authorization": authorization})
        assert answer.status == 401
        assert answer.headers["www-authenticate"] == "Bearer"
        assert answer.headers["cache-control"] == "no-store"


@pytest.mark.rule("N1")
@pytest.mark.parametrize("entry", MCP_ENTRIES, ids=lambda entry: entry.name)
@pytest.mark.parametrize("source", ["agent_ide", "cli", "studio"])
def test_a_credential_opens_the_entries_of_its_source_and_no_other(live: Live, entry: Any, source: str) -> None:
    answer = live.send(PING, path=entry.path, source=source)
    assert answer.status == (200 if source == entry.source else 403)


@pytest.mark.rule("N2", "K12")
def test_a_revoked_credential_is_401_at_once(live: Live) -> None:
    assert live.send(PING).status == 200
    public_id = Credential.objects.get(source="agent_ide").public_id
    revoke_credential(public_id=public_id, now=clock.now())
    assert live.send(PING).status == 401


@pytest.mark.rule("K24")
def test_the_twenty_first_bad_token_is_429_whatever_address_the_client_claims(live: Live) -> None:
    def bad(number: int) -> Any:
        return live.send(PING, headers={"Authorization": "Bearer bad", "X-Forwarded-For": f"10.0.0.{number}"})

    assert {bad(number).status for number in range(20)} == {401}
    refused = bad(20)
    assert refused.status == 429
    assert 1 <= int(refused.headers["retry-after"]) <= 60
    assert refused.json["error"]["data"]["code"] == "RATE_LIMITED"
    assert live.send(PING).status == 200, "a valid credential is not refused for its neighbour's"


@pytest.mark.rule("N5")
@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT", "HEAD"])
def test_other_methods_are_405_at_once(live: Live, method: str) -> None:
    begun = time.monotonic()
    answer = live.send(b"", method=method, headers={"Content-Type": None})
    assert answer.status == 405
    assert answer.headers["allow"] == "POST, DELETE"
    assert time.monotonic() - begun < 2


@pytest.mark.rule("FR-E9")
@pytest.mark.parametrize(
    ("accept", "status"),
    [
        ("application/json, text/event-stream", 200),
        ("text/event-stream;q=0.5,APPLICATION/JSON", 200),
        ("*/*", 200),
        ("application/*, text/*", 200),
        ("application/json", 406),
        ("text/event-stream", 406),
        ("application/json, text/event-stream;q=0", 406),
        ("text/html", 406),
        (None, 406),
    ],
)
def test_accept_must_cover_both_types_and_the_refusal_says_so(live: Live, accept: str | None, status: int) -> None:
    answer = live.send(PING, headers={"Accept": accept})
    assert answer.status == status
    if status == 406:
        assert "application/json, text/event-stream" in answer.json["error"]["message"]


@pytest.mark.rule("K23")
@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("application/json", 200),
        ('Application/JSON; charset="UTF-8"', 200),
        ("application/json; charset=utf-16", 415),
        ("text/plain", 415),
        ("application/x-www-form-urlencoded", 415),
        (None, 415),
    ],
)
def test_only_json_in_utf8_is_taken(live: Live, kind: str | None, status: int) -> None:
    assert live.send(PING, headers={"Content-Type": kind}).status == status


@pytest.mark.rule("K23")
def test_a_compressed_body_is_415(live: Live) -> None:
    assert live.send(gzip.compress(json.dumps(CALL).encode()), headers={"Content-Encoding": "gzip"}).status == 415
    assert effects.done == []


def _chunked(live: Live, parts: list[bytes], token: str) -> bytes:
    """Send ``parts`` as chunks with no length announced; everything that comes back."""
    head = (
        f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{live.port}\r\nAuthorization: Bearer {token}\r\n"
        "Accept: */*\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", live.port), timeout=20) as connection:
        connection.sendall(head.encode())
        try:
            for part in parts:
                connection.sendall(b"%x\r\n%s\r\n" % (len(part), part))
            connection.sendall(b"0\r\n\r\n")
        except OSError:
            pass  # the answer came before the end of the body
        found = b""
        while block := connection.recv(65536):
            found += block
    return found


@pytest.mark.rule("K23")
def test_a_body_without_a_length_is_read_and_still_bounded(live: Live) -> None:
    token = live.tokens["agent_ide"]
    text = json.dumps(PING).encode()
    assert _chunked(live, [text[:7], text[7:]], token).startswith(b"HTTP/1.1 200")
    assert _chunked(live, [b" " * 65536] * 20, token).startswith(b"HTTP/1.1 413")


@pytest.mark.rule("K23")
def test_an_announced_length_beyond_the_bound_is_413_and_an_unknown_caller_still_401(live: Live) -> None:
    body = b'"' + b"x" * (conf.settings().max_value_bytes + 64 * 1024) + b'"'
    assert live.send(body).status == 413
    assert live.send(body, headers={"Authorization": None}).status == 401


@pytest.mark.rule("K23")
def test_the_largest_value_passes_and_a_larger_one_is_pointed_at(live: Live) -> None:
    limit = conf.settings().max_value_bytes
    fits = live.legacy("tools/call", {"name": "echo", "arguments": {"value": "x" * (limit - 20)}})
    assert fits.json["result"]["isError"] is False
    large = live.legacy("tools/call", {"name": "echo", "arguments": {"value": "x" * (limit + 20)}})
    error = large.json["result"]["structuredContent"]["error"]
    assert (error["code"], error["validation"]["issues"][0]["code"]) == ("INVALID_REQUEST", "size")


@pytest.mark.rule("K23")
def test_a_body_that_never_ends_is_given_up(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "BODY_SECONDS", 0.2)
    head = f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{live.port}\r\nContent-Length: 10\r\n\r\n{{"
    with socket.create_connection(("127.0.0.1", live.port), timeout=10) as connection:
        connection.sendall(head.encode())
        found = b""
        while block := connection.recv(65536):
            found += block
    assert found.startswith(b"HTTP/1.1 408")


@pytest.mark.rule("K26", "E6")
@pytest.mark.parametrize(("trouble", "status"), [(RuntimeError, 500), (OperationalError, 503)])
def test_trouble_before_any_tool_is_told_without_its_cause(
    live: Live, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, trouble: Any, status: int
) -> None:
    def fail(**_: Any) -> None:
        raise trouble("SELECT secret FROM /srv/ledger")

    monkeypatch.setattr(answering, "authenticate_from", fail)
    answer = live.send(PING)
    assert answer.status == status
    assert b"SELECT" not in answer.body
    assert b"/srv" not in answer.body
    assert any(record.exc_info and "SELECT" in str(record.exc_info[1]) for record in caplog.records)
    assert (answer.headers.get("retry-after") is not None) == (status == 503)
