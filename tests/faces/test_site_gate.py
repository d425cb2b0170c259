"""What is refused, or bounded, before Django sees a request, at the socket of the whole site."""

# ruff: noqa: F811 - the fixtures come from site_live
from __future__ import annotations

import json
import socket
import threading
import time
from pathlib import Path
from typing import Any

import django.contrib.admin
import pytest
from django.conf import settings
from django.contrib.auth import get_user_model
from django.db import connections
from django.db.backends.signals import connection_created
from site_live import Site, _site_port, identity, site  # noqa: F401

from apps.core import exchange, threads

PATHS = ["/api/v1/status", "/api/v1/runs", "/api/v1/nothing", "/admin/", "/health", "/static/admin/css/base.css"]
PROBLEM = "application/problem+json"


def head(site: Site, path: str = "/api/v1/runs", **headers: str) -> bytes:
    """The head of a POST with a good credential."""
    sent = {
        "Host": f"127.0.0.1:{site.port}",
        "Authorization": f"Bearer {site.tokens['studio']}",
        "Content-Type": "application/json",
        **headers,
    }
    return f"POST {path} HTTP/1.1\r\n".encode() + "".join(f"{k}: {v}\r\n" for k, v in sent.items()).encode() + b"\r\n"


@pytest.mark.rule("K7", "N3")
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("host", ["evil.example", "localhost.", "127.0.0.1.evil.example", "", None, "a b"])
def test_a_foreign_host_is_a_problem_on_every_path(site: Site, path: str, host: str | None) -> None:
    found = site.send("GET", path, headers={"Host": host})
    # Without any Host the server itself refuses the request.
    assert found.status == 421 or (host is None and found.status == 400)
    if found.status == 421:
        assert found.headers["content-type"] == PROBLEM
        assert found.json["code"] == "INVALID_REQUEST"


@pytest.mark.rule("K7", "N3", "FR-F7")
@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1:{port}", "[::1]:{port}"])
def test_every_spelling_of_the_loopback_host_is_answered(site: Site, host: str) -> None:
    assert site.send("GET", "/api/v1/status", headers={"Host": host.format(port=site.port)}).status == 200


@pytest.mark.rule("K7", "N3")
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("origin", ["http://evil.example", "null", "", "http://localhost.", "file://localhost"])
def test_a_foreign_origin_is_403_on_every_path(site: Site, path: str, origin: str) -> None:
    found = site.send("GET", path, headers={"Origin": origin})
    assert (found.status, found.headers["content-type"]) == (403, PROBLEM)


@pytest.mark.rule("K7")
@pytest.mark.parametrize(("name", "value"), [("Host", "evil.example"), ("Origin", "http://evil.example")])
def test_a_write_from_a_foreign_place_has_no_effect(site: Site, service: Any, name: str, value: str) -> None:
    body = {"loomName": "trial", "input": {}, **identity(service)}
    assert site.send("POST", "/api/v1/runs", body, headers={name: value}).status in (403, 421)
    assert service.call("list_runs")["runs"] == []
    assert site.send("POST", "/api/v1/runs", body).status == 200


@pytest.mark.rule("K24")
def test_the_twenty_first_bad_token_is_429_whatever_address_the_client_claims(site: Site) -> None:
    for number in range(20):
        assert site.send("GET", "/api/v1/status", token=f"loom_studio_bad{number}").status == 401
    throttled = site.send("GET", "/api/v1/runs", token="bad")
    assert (throttled.status, throttled.json["code"], throttled.json["retryable"]) == (429, "RATE_LIMITED", True)
    assert 1 <= int(throttled.headers["retry-after"]) <= 60
    # The same count as at the MCP Entries, and the same answer.
    assert site.mcp({"jsonrpc": "2.0", "id": 1, "method": "ping"}, token="bad").status == 429
    assert site.send("GET", "/api/v1/status").status == 200, "a valid credential is never refused for others"
    assert site.send("GET", "/api/v1/status", token=None).status == 401, "a missing one is no attempt"
    for number in range(20):
        claimed: dict[str, str | None] = {"X-Forwarded-For": f"10.0.0.{number}"}
        assert site.send("GET", "/api/v1/status", token="bad", headers=claimed).status == 401
    claimed = {"X-Forwarded-For": "10.9.9.9"}
    assert site.send("GET", "/api/v1/status", token="bad", headers=claimed).status == 429


@pytest.mark.rule("K23")
def test_an_announced_length_beyond_the_bound_is_413_without_waiting_for_the_body(site: Site) -> None:
    began = time.monotonic()
    found = site.raw(head(site, **{"Content-Length": str(settings.DATA_UPLOAD_MAX_MEMORY_SIZE + 1)}))
    assert found.startswith(b"HTTP/1.1 413")
    assert PROBLEM.encode() in found
    assert json.loads(found.partition(b"\r\n\r\n")[2])["code"] == "PAYLOAD_TOO_LARGE"
    assert time.monotonic() - began < 5


@pytest.mark.rule("K23")
@pytest.mark.parametrize("path", ["/api/v1/runs", "/admin/login/", "/nowhere"])
def test_a_chunked_body_beyond_the_bound_is_413_on_every_path(site: Site, path: str) -> None:
    block = b"10000\r\n" + b" " * 65536 + b"\r\n"
    blocks = [block] * (settings.DATA_UPLOAD_MAX_MEMORY_SIZE * 5 // 65536)
    found = site.raw(head(site, path, **{"Transfer-Encoding": "chunked"}), *blocks)
    assert found.startswith(b"HTTP/1.1 413")


@pytest.mark.rule("K23")
def test_a_short_chunked_body_is_411_on_the_api(site: Site) -> None:
    chunked = {"Transfer-Encoding": "chunked", "Connection": "close"}
    assert site.raw(head(site, **chunked), b"2\r\n{}\r\n0\r\n\r\n").startswith(b"HTTP/1.1 411")


@pytest.mark.rule("K23")
def test_a_body_that_never_ends_is_given_up(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "BODY_SECONDS", 0.2)
    assert site.raw(head(site, **{"Content-Length": "10"}), b"{").startswith(b"HTTP/1.1 408")


@pytest.mark.rule("F18")
def test_a_client_that_leaves_in_the_middle_of_its_body_has_no_effect(site: Site, service: Any) -> None:
    whole = head(site, **{"Content-Length": "500"}) + b'{"loomName":"trial"'
    for cut in range(1, len(whole), len(whole) // 10):
        with socket.create_connection(("127.0.0.1", site.port)) as connection:
            connection.sendall(whole[:cut])
    assert site.send("GET", "/api/v1/runs").json["runs"] == []


def test_requests_share_the_connections_of_a_few_threads(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(connections.settings["default"], "CONN_MAX_AGE", None)
    opened: list[Any] = []

    def note(connection: Any, **_: Any) -> None:
        opened.append(connection)

    connection_created.connect(note)
    try:
        before = threading.active_count()
        statuses = []
        clients = [
            threading.Thread(
                target=lambda: statuses.extend(site.send("GET", "/api/v1/status").status for _ in range(10))
            )
            for _ in range(8)
        ]
        for client in clients:
            client.start()
        for client in clients:
            client.join()
        assert statuses == [200] * 80
        assert len(opened) <= threads.THREADS
        assert threading.active_count() <= before + threads.THREADS
    finally:
        connection_created.disconnect(note)
        monkeypatch.undo()
        for connection in opened:
            connection.inc_thread_sharing()
            connection.close()


@pytest.mark.rule("F12")
def test_more_requests_than_can_wait_are_503_with_retry_after(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "MAX_WAITING", -threads.THREADS)
    found = site.send("GET", "/api/v1/status")
    assert (found.status, found.json["code"]) == (503, "UNAVAILABLE")
    assert "retry-after" in found.headers


@pytest.mark.rule("K23")
def test_a_query_that_is_no_utf_8_is_a_problem(site: Site) -> None:
    request = b"GET /api/v1/status?x=\xff HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    assert site.raw(request).startswith(b"HTTP/1.1 400")
    assert site.send("GET", "/api/v1/status?x=%ff").status == 400


def test_a_static_file_comes_whole_and_a_head_without_body(site: Site) -> None:
    file = Path(django.contrib.admin.__file__).parent / "static/admin/css/base.css"
    found = site.send("GET", "/static/admin/css/base.css", token=None)
    assert (found.status, found.body) == (200, file.read_bytes())
    assert site.send("HEAD", "/static/admin/css/base.css", token=None).body == b""
    assert site.send("HEAD", "/api/v1/status").status == 200


def test_a_person_signs_in_to_the_admin(site: Site) -> None:
    get_user_model().objects.create_superuser(username="op", password="only for this test")
    form = site.send("GET", "/admin/login/", token=None)
    token = form.headers["set-cookie"].partition("csrftoken=")[2].partition(";")[0]
    fields = f"username=op&password=only+for+this+test&csrfmiddlewaretoken={token}&next=/admin/".encode()
    headers: dict[str, str | None] = {
        "Cookie": f"csrftoken={token}",
        "Content-Type": "application/x-www-form-urlencoded",
        "Origin": f"http://127.0.0.1:{site.port}",
    }
    signed = site.send("POST", "/admin/login/", fields, token=None, headers=headers)
    assert signed.status == 302
    session = signed.headers["set-cookie"].partition("sessionid=")[2].partition(";")[0]
    assert site.send("GET", "/admin/", token=None, headers={"Cookie": f"sessionid={session}"}).status == 200


@pytest.mark.rule("K4", "FR-H3")
@pytest.mark.parametrize("path", ["/admin/?next={}", "/health?x={}", "/{}", "/static/{}", "/api/v1/runs/{}", "/mcp/{}"])
def test_a_credential_in_any_address_is_400_and_not_repeated(site: Site, path: str) -> None:
    for written in (site.tokens["studio"], site.tokens["studio"].replace("_", "%5F")):
        found = site.send("GET", path.format(written))
        assert found.status == 400
        assert site.tokens["studio"][-20:].encode() not in found.body


@pytest.mark.rule("K23")
@pytest.mark.parametrize("part", [b"X-Long: " + b"a" * 65536, b"X: y\r\n" * 20_000], ids=["long", "many"])
def test_a_head_without_end_is_refused_and_not_kept(site: Site, part: bytes) -> None:
    found = site.raw(b"GET /health HTTP/1.1\r\nHost: localhost\r\n", *[part] * 40)
    assert found.startswith(b"HTTP/1.1 4") or found == b""
    assert site.send("GET", "/health").status == 200
