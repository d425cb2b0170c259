"""Odd, ambiguous and hostile requests at the socket of the whole site: refused plainly, or answered rightly."""

# ruff: noqa: F811 - the fixtures come from site_live
from __future__ import annotations

import http.client
import json
import re
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from site_live import Site, _site_port, identity, site  # noqa: F401

PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
PROBLEM = "application/problem+json"
LOOM = """\
loom: odd
title: Odd
description: Writes an Artifact and a Record under any id.
entry: only
stages:
  only:
    state: steps:State
    initialize: steps:begin
    entry: act
    steps:
      act:
        code: steps:act
        on: {done: end}
    on: {done: end}
"""
STEPS = """\
from typing import Any

from loomsvc.authoring import CodeStep, StageContext
from pydantic import BaseModel


class State(BaseModel):
    pass


def begin(context: StageContext[Any]) -> State:
    return State()


def act(step: CodeStep[State]) -> str:
    step.create_artifact({"n": 1}, artifact_id=step.input["id"])
    step.append_record({"n": 1}, record_id=step.input["id"])
    return "done"
"""


@pytest.fixture
def odd_loom(loom_paths: Path) -> str:
    """A Loom that writes under the id it is given."""
    folder = loom_paths / "odd"
    folder.mkdir()
    (folder / "loom.yaml").write_text(LOOM)
    (folder / "steps.py").write_text(STEPS)
    return "odd"


@pytest.mark.rule("N1", "K9")
def test_two_credentials_in_one_request_are_none(site: Site) -> None:
    good = f"Bearer {site.tokens['studio']}"
    assert site.send("GET", "/api/v1/status", more=(("Authorization", good),)).status == 401
    assert site.send("GET", "/api/v1/status", more=(("authorization", "Bearer x"),)).status == 401
    assert site.send("GET", "/api/v1/status", headers={"Authorization": f"{good},"}).status == 401


@pytest.mark.rule("N1")
@pytest.mark.parametrize("scheme", ["bearer", "BEARER", "BeArEr"])
def test_the_scheme_is_read_in_any_case(site: Site, scheme: str) -> None:
    headers: dict[str, str | None] = {"Authorization": f"{scheme} {site.tokens['studio']}"}
    assert site.send("GET", "/api/v1/status", headers=headers).status == 200


@pytest.mark.rule("K9")
@pytest.mark.parametrize("name", ["authorization_", "http_authorization", "x-authorization", "proxy-authorization"])
def test_no_other_header_stands_for_the_credential(site: Site, name: str) -> None:
    more = ((name, f"Bearer {site.tokens['studio']}"),)
    assert site.send("GET", "/api/v1/status", token=None, more=more).status == 401


@pytest.mark.rule("K9", "FR-E7")
@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND"])
@pytest.mark.parametrize("path", ["/api/v1/runs", "/api/v1/runs/", "/api/v1/status"])
def test_other_methods_are_405_with_what_is_allowed(site: Site, method: str, path: str) -> None:
    assert site.send(method, path, b"{}", token=None).status == 401
    found = site.send(method, path, b"{}")
    assert (found.status, found.headers["content-type"]) == (405, PROBLEM)
    assert "GET" in found.headers["allow"]


@pytest.mark.rule("FR-E7")
def test_a_write_with_and_without_a_trailing_slash_keeps_its_body(site: Site, service: Any) -> None:
    for path in ("/api/v1/runs", "/api/v1/runs/"):
        body = {"loomName": "trial", "input": {}, **identity(service)}
        found = site.send("POST", path, body)
        assert (found.status, found.json["run"]["input"]) == (200, {})


@pytest.mark.rule("K9")
@pytest.mark.parametrize(
    "path",
    [
        "//api/v1/status", "/api//v1/status", "/api/v1//status", "/api/v1/./status", "/api/v1/x/../status",
        "/mcp/../api/v1/status", "/api/v1/%2e%2e/admin/", "/%61pi/v1/nothing", "/API/V1/status", "/api/v1/status;x",
        "/api/v1/status%00", "/api/v1/status%0a", "/api/v1\\status", "/mcp/codex/x", "/mcp//", "/mcp%2Fcodex",
        "/internal/mcp/../../admin/", "/static/../manage.py", "/static/..%2f..%2fmanage.py", "/static/%2e%2e/x",
    ],
)  # fmt: skip
def test_an_oddly_written_path_opens_nothing(site: Site, path: str) -> None:
    found = site.send("GET", path, token=None)
    assert found.status in (301, 302, 400, 401, 404, 405), found.body
    assert b"DJANGO_SETTINGS_MODULE" not in found.body
    found = site.send("POST", path, PING)
    assert found.status in (302, 400, 401, 403, 404, 405, 406, 415), found.body


@pytest.mark.rule("FR-E11", "S1", "FR-D5")
@pytest.mark.parametrize(
    "name",
    ["2026-11-30T09:00:00+00:00", "a/b", "a//b", "/a/", "..", "../x", "50%", "%2F", "a b", "🧵", "a?b#c", "a;b=c",
     "revisions", "x/revisions", "x/revisions/", "a&b", '"', "<b>", "\\", "x" * 200, "é", "e\u0301"],
)  # fmt: skip
def test_an_id_of_any_printable_text_opens_on_every_face(site: Site, service: Any, odd_loom: str, name: str) -> None:
    run = service.finish(odd_loom, id=name)
    assert run["status"] == "completed", run
    address = quote(name, safe="")
    found = site.send("GET", f"/api/v1/artifacts/{address}")
    assert (found.status, found.json["artifact"]["artifactId"]) == (200, name), found.body
    assert site.send("GET", f"/api/v1/records/{address}").json["record"]["recordId"] == name
    revisions = site.send("GET", f"/api/v1/artifacts/{address}/revisions").json["revisions"]
    assert [revision["artifactId"] for revision in revisions] == [name]
    assert site.tool("get_artifact", {"artifactId": name})["structuredContent"]["artifact"]["artifactId"] == name
    assert site.tool("get_record", {"recordId": name})["structuredContent"]["record"]["recordId"] == name


@pytest.mark.rule("K23", "FR-D1", "FR-D5")
@pytest.mark.parametrize(
    ("path", "pointer"),
    [
        ("/artifacts/a%00b", "/artifactId"),
        ("/records/%00", "/recordId"),
        ("/artifacts/" + "x" * 201, "/artifactId"),
        ("/artifacts/" + "x" * 60_000, "/artifactId"),
        ("/runs/0198c1f2-7c7e-7000-8000-00000000000%D9%A3", "/runId"),
        ("/runs/%7B0198c1f27c7e70008000000000000000%7D--", "/runId"),
        ("/runs/urn:uuid:0198c1f2-7c7e-7000-8000-000000000000", "/runId"),
        ("/runs?limit=050", "/limit"),
        ("/runs?limit=%2B5", "/limit"),
        ("/runs?limit=5e1", "/limit"),
        ("/runs?limit=50.0", "/limit"),
        ("/runs?limit=%EF%BC%95", "/limit"),
        ("/runs?limit=true", "/limit"),
        ("/runs?limit=nan", "/limit"),
        ("/runs?limit=1e400", "/limit"),
        ("/runs?limit=9223372036854775807", "/limit"),
        ("/runs?limit=" + "9" * 5000, "/limit"),
        ("/runs?limit=", "/limit"),
        ("/runs?cursor=%00", "/cursor"),
        ("/runs?cursor=" + "x" * 3000, "/cursor"),
        ("/runs?loomName=%00", "/loomName"),
        ("/runs?page=2", "/page"),
    ],
    ids=lambda value: value[:40],
)
def test_an_odd_member_in_an_address_is_pointed_at(site: Site, path: str, pointer: str) -> None:
    found = site.send("GET", f"/api/v1{path}")
    assert found.status == 400, found.body
    assert pointer in [issue["path"] for issue in found.json["validation"]["issues"]]


@pytest.mark.rule("E3", "FR-D7")
@pytest.mark.parametrize("limit", ["50", "nan", "1e400", 50.5, True, [], {}, 0, 201, -1, 2**53])
def test_a_number_of_another_type_is_pointed_at(site: Site, limit: Any) -> None:
    error = site.tool("list_runs", {"limit": limit})["structuredContent"]["error"]
    assert [issue["path"] for issue in error["validation"]["issues"]] == ["/limit"]


#: Raw JSON for the member ``input`` of ``run`` → the issue's code and pointer, if it names a place.
BOUNDS = {
    "nul": (rb'"what\u0000ever"', "nul", "/input"),
    "surrogate": (rb'["\ud83d"]', "surrogate", "/input/0"),
    "surrogate key": (rb'{"\ud83d":1}', "surrogate", r"/input/\ud83d"),
    "integer": (b"9007199254740992", "integer_range", "/input"),
    "digits": (b"9" * 5000, "integer_range", "/input"),
    "nan": (b"NaN", "number", "/input"),
    "infinity": (b"[-Infinity]", "number", "/input/0"),
    "overflow": (b"1e400", "number", "/input"),
    "duplicate": (b'{"a":1,"a":1}', "duplicate_key", "/input/a"),
    "depth": (b'{"a":' * 65 + b"1" + b"}" * 65, "depth", "/input" + "/a" * 64),
    "size": (b'"' + b"x" * (1024 * 1024) + b'"', "size", "/input"),
}


@pytest.mark.rule("K23", "FR-D1", "FR-D5", "FR-D7", "FR-D13")
@pytest.mark.parametrize("case", BOUNDS)
def test_json_out_of_bounds_is_pointed_at_alike_on_both_faces(site: Site, service: Any, case: str) -> None:
    value, code, pointer = BOUNDS[case]
    own = json.dumps(identity(service)).encode()[1:-1]
    arguments = b'{"loomName":"single",' + own + b',"input":' + value + b"}"
    result = site.tool("run", arguments)
    reply = site.send("POST", "/api/v1/runs", arguments)
    assert (reply.status, reply.headers["content-type"]) == (400, PROBLEM)
    for error in (result["structuredContent"]["error"], reply.json):
        assert {"code": code, "path": pointer}.items() <= error["validation"]["issues"][0].items()
    assert result["structuredContent"]["error"]["validation"] == reply.json["validation"]
    assert service.call("list_runs")["runs"] == []


@pytest.mark.rule("K23", "FR-D13", "FR-D19")
@pytest.mark.parametrize(
    "body",
    [b"\xef\xbb\xbf{}", "{}".encode("utf-16"), "{}".encode("utf-32"), b'{"a":"\xff"}', b"[" * 20000 + b"]" * 20000,
     b"{'a':1}", b"{}{}", b"{} x", b"\x00", b"", b"null", b"[]", b'"x"', b"7"],
    ids=lambda value: repr(value[:12]),
)  # fmt: skip
def test_a_body_that_is_no_json_object_is_400_on_both_faces(site: Site, body: bytes) -> None:
    reply = site.send("POST", "/api/v1/runs", body)
    assert (reply.status, reply.json["code"]) == (400, "INVALID_REQUEST")
    assert site.mcp(body).status == 400


@pytest.mark.rule("K23")
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Content-Encoding": "identity"}, 200),
        ({"Content-Encoding": "gzip"}, 415),
        ({"Content-Encoding": "identity, gzip"}, 415),
        ({"Content-Type": "application/json; charset=UTF-8"}, 200),
        ({"Content-Type": "application/json;charset=utf-16"}, 415),
        ({"Content-Type": "Application/JSON"}, 200),
        ({"Content-Type": "application/json-seq"}, 415),
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
        ({"Content-Type": "multipart/form-data; boundary=x"}, 415),
        ({"Content-Type": None}, 415),
    ],
)
def test_only_plain_json_in_utf_8_is_taken(site: Site, service: Any, headers: Any, status: int) -> None:
    body = {"loomName": "trial", "input": {}, **identity(service)}
    found = site.send("POST", "/api/v1/runs", body, headers=headers)
    assert found.status == status, found.body
    over_mcp = site.send("POST", "/internal/mcp", PING, token="cli", headers={"Accept": "*/*", **headers})
    assert over_mcp.status == status


@pytest.mark.rule("FR-E9")
@pytest.mark.parametrize("accept", [None, "*/*", "application/json", "text/html", "application/xml;q=0.9", "nonsense"])
def test_every_accept_gets_the_same_answer_over_rest(site: Site, accept: str | None) -> None:
    found = site.send("GET", "/api/v1/status", headers={"Accept": accept})
    assert (found.status, found.headers["content-type"]) == (200, "application/json")


def _head(site: Site, *lines: str) -> bytes:
    own = [f"Host: 127.0.0.1:{site.port}", f"Authorization: Bearer {site.tokens['studio']}", *lines]
    return ("POST /api/v1/runs HTTP/1.1\r\nContent-Type: application/json\r\n" + "\r\n".join(own) + "\r\n\r\n").encode()


@pytest.mark.rule("K7")
@pytest.mark.parametrize(
    "lines",
    [
        ("Content-Length: 2", "Transfer-Encoding: chunked"),
        ("Transfer-Encoding: chunked", "Content-Length: 2"),
        ("Content-Length: 2", "Content-Length: 40"),
        ("Content-Length: 2, 40",),
        ("Content-Length: +2",),
        ("Content-Length: -2",),
        ("Content-Length: 0x2",),
        ("Transfer-Encoding: chunked, identity",),
        ("Transfer-Encoding : chunked",),
        ("Transfer-Encoding: xchunked",),
        ("Content-Length : 2",),
    ],
    ids=" & ".join,
)
def test_an_ambiguous_length_smuggles_no_second_request(site: Site, service: Any, lines: tuple[str, ...]) -> None:
    body = json.dumps({"loomName": "trial", "input": {}, **identity(service)}).encode()
    hidden = _head(site, f"Content-Length: {len(body)}", "Connection: close") + body
    found = site.raw(_head(site, *lines) + b"{}" + hidden)
    assert found.startswith((b"HTTP/1.1 4", b"HTTP/1.1 501")) or found == b"", found[:200]
    assert found.count(b"HTTP/1.1 200") == 0
    assert service.call("list_runs")["runs"] == []


def test_pipelined_requests_are_answered_in_their_order(site: Site) -> None:
    token = site.tokens["studio"]

    def request(path: str, *more: str) -> bytes:
        lines = [f"GET {path} HTTP/1.1", "Host: localhost", f"Authorization: Bearer {token}", *more]
        return ("\r\n".join(lines) + "\r\n\r\n").encode()

    missing = "/api/v1/runs/0198c1f2-7c7e-7000-8000-000000000000"
    found = site.raw(request("/api/v1/status") + request(missing) + request("/api/v1/looms", "Connection: close"))
    assert re.findall(rb"HTTP/1\.1 (\d+)", found) == [b"200", b"404", b"200"]


def test_an_answer_on_a_kept_connection_is_not_held_back(site: Site) -> None:
    took = []
    with closing(http.client.HTTPConnection("127.0.0.1", site.port, timeout=20)) as connection:
        for _ in range(30):
            began = time.monotonic()
            connection.request("GET", "/nowhere", headers={"Host": "localhost"})
            connection.getresponse().read()
            took.append(time.monotonic() - began)
    # Nagle's delay would add 40 ms to each but the first few.
    assert sorted(took)[10] < 0.035


@pytest.mark.rule("F12")
def test_two_hundred_clients_at_once_are_all_answered(site: Site) -> None:
    statuses: list[int] = []

    def call(number: int) -> None:
        if number % 2:
            statuses.append(site.send("GET", "/api/v1/runs").status)
        else:
            statuses.append(site.mcp(PING).status)

    clients = [threading.Thread(target=call, args=(number,)) for number in range(200)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    assert statuses == [200] * 200
