"""How a URL and a body become the arguments of an Endpoint."""

from __future__ import annotations

import json
import uuid
from typing import Any
from urllib.parse import quote

import pytest
from django.test import Client
from hypothesis import given
from hypothesis import strategies as st
from rest_sample import ENDPOINTS, Echo, Failure, ListThings, ThingRef, echo, make, serve, signed_in

from apps.core.endpoints import Route
from apps.core.errors import LoomError
from apps.rest import arguments
from apps.rest.bindings import bind
from apps.rest.urls import patterns_for

pytestmark = pytest.mark.django_db
RUN, OPERATION = str(uuid.UUID(int=7)), str(uuid.UUID(int=9))


@pytest.fixture
def client(settings: Any) -> Client:
    serve(settings)
    return signed_in()


def issues(response: Any) -> list[tuple[str, str]]:
    assert response.status_code == 400, response.content
    return [(issue["code"], issue["path"]) for issue in response.json()["validation"]["issues"]]


@pytest.mark.parametrize(
    ("query", "seen"),
    [
        ("", {"limit": 50}),
        ("limit=50", {"limit": 50}),
        ("limit=7&deep=true&status=queued", {"limit": 7, "deep": True, "status": "queued"}),
        ("deep=false", {"limit": 50, "deep": False}),
        ("code=020", {"limit": 50, "code": "020"}),
        ("code=true", {"limit": 50, "code": "true"}),
        ("code=2026-01-01T00%3A00%3A00%2B00%3A00", {"limit": 50, "code": "2026-01-01T00:00:00+00:00"}),
    ],
)
@pytest.mark.rule("FR-D15", "FR-E11")
def test_query_text_becomes_what_the_contract_declares(client: Client, query: str, seen: dict[str, Any]) -> None:
    response = client.get(f"/api/v1/things?{query}")
    assert response.status_code == 200, response.content
    assert {k: v for k, v in response.json()["seen"].items() if v is not None} == seen


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("limit=99999999999999999999", ("integer_range", "/limit")),
        ("limit=9223372036854775807", ("integer_range", "/limit")),
        ("limit=" + "9" * 5000, ("integer_range", "/limit")),
        ("limit=100000", ("range", "/limit")),
        ("limit=0", ("range", "/limit")),
        ("limit=-1", ("range", "/limit")),
        ("limit=007", ("type", "/limit")),
        ("limit=5.0", ("type", "/limit")),
        ("limit=1e400", ("type", "/limit")),
        ("limit=%D9%A3", ("type", "/limit")),
        ("limit=", ("type", "/limit")),
        ("limit", ("type", "/limit")),
        ("deep=True", ("type", "/deep")),
        ("deep=1", ("type", "/deep")),
        ("status=gone", ("choice", "/status")),
        ("page=9223372036854775807", ("unknown_member", "/page")),
        ("a~b%2Fc=1", ("unknown_member", "/a~0b~1c")),
        ("limit=5&limit=5", ("duplicate_key", "/limit")),
        ("limit=5&limit=6", ("duplicate_key", "/limit")),
        ("code=%00", ("nul", "/code")),
        ("code=%ff", ("encoding", "")),
        ("code=%ED%A0%BD", ("encoding", "")),
    ],
)
@pytest.mark.rule("E3", "FR-E5", "FR-D1", "FR-D5", "FR-D7")
def test_a_wrong_query_names_the_parameter(client: Client, query: str, expected: tuple[str, str]) -> None:
    assert expected in issues(client.get(f"/api/v1/things?{query}"))


@pytest.mark.rule("E3")
def test_every_wrong_parameter_is_listed_and_an_unchanged_retry_gets_the_identical_answer(client: Client) -> None:
    first = client.get("/api/v1/things?limit=0&deep=maybe&what=1")
    assert issues(first) == [("range", "/limit"), ("type", "/deep"), ("unknown_member", "/what")]
    assert client.get("/api/v1/things?limit=0&deep=maybe&what=1").content == first.content


@pytest.mark.rule("E3")
def test_rest_reports_the_very_issues_that_the_contract_reports_to_every_face(client: Client) -> None:
    body = {"runId": RUN, "operationId": "x", "note": 5, "extra": None}
    with pytest.raises(LoomError) as caught:
        next(e for e in ENDPOINTS if e.name == "pause_run").input.parse(body)
    del body["runId"]
    response = client.post(f"/api/v1/runs/{RUN}/pause", body, content_type="application/json")
    assert response.json()["validation"] == caught.value.to_wire()["validation"]
    assert response.json()["message"] == caught.value.message


@pytest.mark.parametrize(
    "path", ["/api/v1/runs/nonsense", "/api/v1/runs/%00", "/api/v1/runs/" + "a" * 36, "/api/v1/runs/0"]
)
@pytest.mark.rule("E3")
def test_a_malformed_uuid_in_a_path_is_an_invalid_request(client: Client, path: str) -> None:
    response = client.get(path)
    assert issues(response)[0][1] == "/runId"
    assert response.json()["code"] == "INVALID_REQUEST"


@pytest.mark.rule("O1")
def test_a_uuid_in_a_path_may_have_any_case(client: Client) -> None:
    text = "0198C1F2-7C7E-7000-8000-0000000000AB"
    assert client.get(f"/api/v1/runs/{text}").json()["seen"] == {"runId": text.lower()}


@pytest.mark.parametrize(
    "chosen",
    ["report", "2026-01-01T00:00:00+00:00", "a/b", "ü ñ", "a%2Fb", "x?y#z", "a//b", "-", "null", "revisions/x"],
)
@pytest.mark.parametrize("slash", ["", "/"])
@pytest.mark.rule("FR-E11")
def test_an_id_that_code_chose_opens_whatever_it_holds(client: Client, chosen: str, slash: str) -> None:
    response = client.get(f"/api/v1/things/{quote(chosen, safe='')}{slash}")
    assert response.json()["thing"]["seen"] == {"thingId": chosen}


def test_a_number_in_a_path_becomes_a_number(client: Client) -> None:
    assert client.get("/api/v1/things/a/revisions/3").json()["seen"] == {"thingId": "a", "revision": 3}
    assert issues(client.get("/api/v1/things/a/revisions/03")) == [("type", "/revision")]


@pytest.mark.parametrize("slash", ["", "/"])
@pytest.mark.rule("FR-E7")
def test_a_body_arrives_with_and_without_a_trailing_slash(client: Client, slash: str) -> None:
    body = {"operationId": OPERATION, "data": {"b": [1, None]}}
    response = client.post(f"/api/v1/runs/{RUN}/pause{slash}", body, content_type="application/json")
    assert response.status_code == 200
    assert response.json()["seen"] == {"runId": RUN, "operationId": OPERATION, "data": {"b": [1, None]}}


def test_a_body_may_repeat_what_the_path_says_but_not_say_something_else(client: Client) -> None:
    url = f"/api/v1/runs/{RUN}/pause"
    body = {"operationId": OPERATION, "runId": RUN}
    assert client.post(url, body, content_type="application/json").status_code == 200
    for other in (OPERATION, None, 5):
        refused = client.post(url, {**body, "runId": other}, content_type="application/json")
        assert issues(refused) == [("conflict", "/runId")]
    assert issues(client.get(f"/api/v1/runs/{RUN}?runId={OPERATION}")) == [("conflict", "/runId")]


@pytest.mark.rule("E3")
def test_members_of_a_post_belong_into_its_body(client: Client) -> None:
    url = f"/api/v1/runs/{RUN}/pause?operationId={OPERATION}&x"
    response = client.post(url, {"operationId": OPERATION}, content_type="application/json")
    assert issues(response) == [("unknown_member", "/operationId"), ("unknown_member", "/x")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b'{"operationId": "' + OPERATION.encode() + b'", "data": "\\ud83d"}', ("surrogate", "/data")),
        (b'{"operationId": "' + OPERATION.encode() + b'", "data": {"a\\u0000": 1}}', ("nul", "/data/a\0")),
        (b'{"data": NaN}', ("number", "/data")),
        (b'{"data": [1, Infinity]}', ("number", "/data/1")),
        (b'{"data": 1e400}', ("number", "/data")),
        (b'{"data": ' + b"9" * 5000 + b"}", ("integer_range", "/data")),
        (b'{"data": ' + b"[" * 20000 + b"]" * 20000 + b"}", ("depth", "")),
        (b'{"data": ' + b"[" * 70 + b"]" * 70 + b"}", ("depth", "/data" + "/0" * 64)),
        (b'{"note": "a", "note": "b"}', ("duplicate_key", "/note")),
        (b'{"runId": "a", "runId": "b"}', ("conflict", "/runId")),
        (b'{"data": {"k": 1, "k": 1}}', ("duplicate_key", "/data/k")),
        (b'{"note": "\xff"}', ("encoding", "")),
        (b'\xef\xbb\xbf{"note": "bom"}', ("syntax", "")),
        (b"{", ("syntax", "")),
        (b"   ", ("syntax", "")),
        (b"[]", ("type", "")),
        (b"null", ("type", "")),
        (b'"text"', ("type", "")),
        (b"{}", ("required", "/operationId")),
        (b"", ("required", "/operationId")),
        (b'{"data": "' + b"x" * (1024 * 1024) + b'"}', ("size", "/data")),
    ],
    ids=lambda value: value[:24] if isinstance(value, bytes) else value[0],
)
@pytest.mark.rule("K23", "E3", "FR-D1", "FR-D5", "FR-D7", "FR-D9", "FR-D13", "FR-D19")
def test_a_body_that_is_no_i_json_is_refused_with_the_place(
    client: Client, text: bytes, expected: tuple[str, str]
) -> None:
    response = client.post(f"/api/v1/runs/{RUN}/pause", text, content_type="application/json")
    assert expected in issues(response)


@pytest.mark.rule("K23")
def test_a_body_too_large_to_be_read_is_413(client: Client, settings: Any) -> None:
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 1000
    for size in (989, 990, 5000):
        text = json.dumps({"data": "x" * size}).encode()
        response = client.post(f"/api/v1/runs/{RUN}/pause", text, content_type="application/json")
        if len(text) <= 1000:
            assert response.status_code == 400
        else:
            assert (response.status_code, response.json()["code"]) == (413, "PAYLOAD_TOO_LARGE")


@pytest.mark.parametrize(
    ("content_type", "headers", "status"),
    [
        ("application/json", {}, 200),
        ("application/json; charset=utf-8", {}, 200),
        ("Application/JSON", {}, 200),
        ("application/json", {"content-encoding": "identity"}, 200),
        ("text/plain", {}, 415),
        ("application/x-www-form-urlencoded", {}, 415),
        ("multipart/form-data; boundary=x", {}, 415),
        ("application/*", {}, 415),
        ("*/*", {}, 415),
        ("", {}, 415),
        ("x" * 5000, {}, 415),
        ("application/json", {"content-encoding": "gzip"}, 415),
        ("application/json", {"content-encoding": "br"}, 415),
    ],
)
@pytest.mark.rule("K23")
def test_only_plain_json_is_read(client: Client, content_type: str, headers: dict[str, str], status: int) -> None:
    text = json.dumps({"operationId": OPERATION})
    response = client.generic("POST", f"/api/v1/runs/{RUN}/pause", text, content_type, headers=headers)
    assert response.status_code == status, response.content
    if status != 200:
        assert response["Content-Type"] == "application/problem+json"
        assert response.json()["code"] == "INVALID_REQUEST"
        cure = "without Content-Encoding" if headers else "as `Content-Type: application/json`"
        assert response.json()["message"].startswith(f"Send the body {cure}")


@pytest.mark.rule("K23", "FR-E7")
def test_a_body_of_unknown_length_is_refused_rather_than_lost(client: Client) -> None:
    request = {"HTTP_TRANSFER_ENCODING": "chunked", "CONTENT_TYPE": "application/json"}
    response = client.generic("POST", f"/api/v1/runs/{RUN}/pause", b"", **request)
    assert response.status_code == 411
    assert response.json()["code"] == "INVALID_REQUEST"


@given(st.text(max_size=12))
def test_text_is_turned_only_where_json_would_write_it_so(text: str) -> None:
    schema = ListThings.wire_schema()
    number = arguments.coerce(text, "limit", schema)
    assert isinstance(number, str) or (type(number) is int and str(number) == text.replace("-0", "0"))
    assert arguments.coerce(text, "code", schema) == text
    assert arguments.coerce(text, "unknown", schema) == text


@pytest.mark.parametrize(
    ("endpoints", "complaint"),
    [
        ([make("a", ThingRef, echo, Route("DELETE", "/a"))], "DELETE is not served"),
        ([make("a", ThingRef, echo, Route("GET", "/a/{other}"))], "names other, not in ThingRef"),
        ([make("a", ThingRef, echo, Route("GET", "/a/x{thingId}"))], "neither a literal nor a member"),
        ([make("a", ThingRef, echo, Route("GET", "/a")), make("b", ThingRef, echo, Route("GET", "/a"))], "is taken"),
    ],
)
def test_a_route_that_cannot_be_served_is_refused_at_start(endpoints: list[Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        patterns_for(endpoints)


def test_the_more_particular_path_wins_whatever_the_order_of_registration() -> None:
    paths = ["/things/{thingId}", "/things/new", "/things/{thingId}/{kind}", "/things/{thingId}/new"]

    class Both(ThingRef, Failure):
        pass

    for order in (paths, paths[::-1]):
        bound = bind(make(path, Both, echo, Route("GET", path), Echo) for path in order)
        assert [next(iter(b.values())).route.path for b in bound] == [
            "/things/{thingId}/new", "/things/{thingId}/{kind}", "/things/new", "/things/{thingId}",
        ]  # fmt: skip
