"""Errors over REST, who may call, and addresses that do not exist."""

from __future__ import annotations

import datetime as dt
import logging
import re
from typing import Any

import pytest
from django.test import Client
from django.urls import get_resolver
from rest_sample import SECRET, credential, serve, signed_in

from apps.access.domain import tokens
from apps.access.models import Credential
from apps.access.services.credentials import revoke_credential
from apps.core import clock, database
from apps.core.caller import Source
from apps.core.errors import ErrorCode

pytestmark = pytest.mark.django_db

STATUS = {
    "INVALID_REQUEST": 400, "UNAUTHENTICATED": 401, "FORBIDDEN": 403, "NOT_FOUND": 404, "CONFLICT": 409, "BUSY": 409,
    "INSTANCE_CHANGED": 409, "CAPACITY": 409, "TOOLS_CLOSED": 409, "RELEASE_UNAVAILABLE": 409, "MIRROR_DIVERGED": 409,
    "MIRROR_INVALID": 422, "TOOL_FAILED": 422, "PAYLOAD_TOO_LARGE": 413, "RATE_LIMITED": 429, "UNAVAILABLE": 503,
    "INTERNAL": 500,
}  # fmt: skip


@pytest.fixture
def client(settings: Any) -> Client:
    serve(settings)
    return signed_in()


@pytest.fixture
def anonymous(settings: Any) -> Client:
    serve(settings)
    return Client(raise_request_exception=False)


@pytest.mark.rule("E1", "E2")
@pytest.mark.parametrize("code", list(ErrorCode))
def test_each_code_has_its_status_and_the_members_of_a_problem(client: Client, code: ErrorCode) -> None:
    response = client.get(f"/api/v1/failures/{code.value}")
    assert response.status_code == STATUS[code.value]
    assert response["Content-Type"] == "application/problem+json"
    assert response["Cache-Control"] == "no-store"
    body = response.json()
    assert body == {
        "type": "about:blank", "title": body["title"], "status": STATUS[code.value], "code": code.value,
        "detail": f"It is {code.value}.", "message": f"It is {code.value}.", "details": {"why": "so"},
        "retryable": code.value in ("BUSY", "RATE_LIMITED", "UNAVAILABLE", "RELEASE_UNAVAILABLE"),
    }  # fmt: skip
    assert ("Retry-After" in response) == (code.value in ("RATE_LIMITED", "UNAVAILABLE"))
    assert ("WWW-Authenticate" in response) == (code.value == "UNAUTHENTICATED")


@pytest.mark.rule("K24")
def test_an_error_that_knows_when_to_retry_says_so(client: Client) -> None:
    assert client.get("/api/v1/failures/later")["Retry-After"] == "17"


@pytest.mark.rule("O6")
def test_a_rejected_receipt_and_the_run_stand_beside_the_error(client: Client) -> None:
    body = client.get("/api/v1/failures/receipt").json()
    assert (body["receipt"], body["run"], body["status"]) == ({"status": "rejected"}, {"runId": "r"}, 409)


@pytest.mark.rule("E4")
def test_a_member_that_is_null_because_there_is_no_such_thing_is_404(client: Client) -> None:
    assert client.get("/api/v1/things/there").status_code == 200
    response = client.get("/api/v1/things/missing")
    assert (response.status_code, response.json()["code"]) == (404, "NOT_FOUND")


@pytest.mark.rule("K26", "E6")
def test_an_unexpected_exception_shows_an_incident_id_and_nothing_else(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR, logger="loomsvc.rest"):
        response = client.get("/api/v1/failures/bug")
    body = response.json()
    assert (response.status_code, body["code"], body["retryable"]) == (500, "INTERNAL", False)
    incident = body["details"]["incident"]
    for word in (SECRET, "SELECT", "/srv", "RuntimeError", "Traceback"):
        assert word not in response.content.decode()
    (record,) = [r for r in caplog.records if r.name == "loomsvc.rest"]
    assert incident in record.getMessage()
    assert record.exc_info
    assert record.exc_info[0] is RuntimeError


@pytest.mark.rule("F12", "K26")
def test_a_database_that_does_not_answer_is_unavailable_and_retryable(client: Client) -> None:
    response = client.get("/api/v1/failures/database")
    assert (response.status_code, response.json()["code"]) == (503, "UNAVAILABLE")
    assert response.json()["retryable"] is True
    assert 0 < int(response["Retry-After"]) <= 10
    assert SECRET not in response.content.decode()


@pytest.mark.rule("F12")
def test_a_database_that_is_lost_while_the_credential_is_looked_up_is_unavailable(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(**_: Any) -> None:
        raise database.DATABASE_TROUBLE[0](SECRET)

    monkeypatch.setattr("apps.access.services.throttling.authenticate", lost)
    response = client.get("/api/v1/status")
    assert (response.status_code, response.json()["code"]) == (503, "UNAVAILABLE")


@pytest.mark.rule("FR-E9")
@pytest.mark.parametrize(
    "accept",
    [
        None,
        "",
        "*/*",
        "application/json",
        "text/html",
        "text/html,*/*;q=0.1",
        "application/problem+json",
        "nonsense",
        "image/png",
    ],
)
def test_every_accept_header_gets_the_json_answer(client: Client, accept: str | None) -> None:
    headers = {} if accept is None else {"accept": accept}
    good, bad = client.get("/api/v1/status", headers=headers), client.get("/api/v1/runs/x", headers=headers)
    assert (good.status_code, good["Content-Type"]) == (200, "application/json")
    assert (bad.status_code, bad["Content-Type"]) == (400, "application/problem+json")
    assert good["Cache-Control"] == "no-store"


@pytest.mark.rule("N3", "K9")
@pytest.mark.parametrize(
    "authorization",
    [None, "", "Bearer", "Bearer ", "Bearer nonsense", "Basic YTpi", "loom_studio_aaaaaaaaaaaa_b", "Bearer \u00fc"],
)
@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/status",
        "/api/v1/runs/x",
        "/api/v1/nothing",
        "/api/v1",
        "/api/v1/",
        "/api/v1/openapi.json",
        "/api/v1/docs",
    ],
)
def test_without_a_valid_credential_every_address_is_401(
    anonymous: Client, path: str, authorization: str | None
) -> None:
    headers = {} if authorization is None else {"authorization": authorization}
    for method in ("GET", "POST", "DELETE", "OPTIONS"):
        response = anonymous.generic(method, path, headers=headers)
        assert response.status_code == 401
        assert response["WWW-Authenticate"].startswith("Bearer")
        assert response["Content-Type"] == "application/problem+json"
        assert response.json()["code"] == "UNAUTHENTICATED"


@pytest.mark.rule("K9")
def test_every_pattern_but_health_asks_for_a_credential(anonymous: Client) -> None:
    open_to_all = set()
    for pattern in get_resolver().url_patterns:
        path = "/" + re.sub(r"\(\?P<\w+>[^)]*\)", "x", str(pattern.pattern)).replace("\\Z", "").replace("/?", "")
        path = path.replace("(?:/[\\s\\S]*)?", "/x").replace("\\", "").replace("^", "")
        for method in ("get", "post"):
            if getattr(anonymous, method)(path).status_code not in (401, 403):
                open_to_all.add(path)
    assert open_to_all == {"/health"}


@pytest.mark.rule("N2", "K12")
def test_a_revoked_or_expired_credential_is_401_at_once(client: Client) -> None:
    row = Credential.objects.get()
    assert client.get("/api/v1/status").status_code == 200
    revoke_credential(public_id=row.public_id, now=clock.now())
    assert client.get("/api/v1/status").status_code == 401
    Credential.objects.update(revoked_at=None, expires_at=clock.now() - dt.timedelta(seconds=1))
    assert client.get("/api/v1/status").status_code == 401


@pytest.mark.rule("N1")
@pytest.mark.parametrize("source", [Source.AGENT_IDE, Source.CLI])
def test_a_credential_of_another_source_is_forbidden(anonymous: Client, source: Source) -> None:
    response = anonymous.get("/api/v1/status", headers={"authorization": f"Bearer {credential(source)}"})
    assert (response.status_code, response.json()["code"]) == (403, "FORBIDDEN")


@pytest.mark.rule("N1", "O10")
def test_the_handler_learns_the_project_and_the_entry(client: Client) -> None:
    assert client.get("/api/v1/status").json() == {"seen": {}, "project": "default", "entry": "/api/v1"}


@pytest.mark.rule("K4", "FR-H3")
@pytest.mark.parametrize("signed", [True, False])
def test_a_credential_in_a_url_is_refused_before_it_is_looked_at(
    client: Client, anonymous: Client, signed: bool, caplog: pytest.LogCaptureFixture
) -> None:
    text = tokens.mint(Source.STUDIO).text
    caller = client if signed else anonymous
    for url in (
        f"/api/v1/status?token={text}", f"/api/v1/status?access_token={text}", "/api/v1/status?token=x",
        "/api/v1/status?Api-Key=x", f"/api/v1/things/{text}", f"/api/v1/things?cursor={text}", f"/api/v1/{text}",
        f"/api/v1/things?code={text.replace('_', '%5F')}",
    ):  # fmt: skip
        response = caller.get(url)
        assert (response.status_code, response.json()["code"]) == (400, "INVALID_REQUEST"), url
        assert text not in response.content.decode()
    assert not any(text in record.getMessage() for record in caplog.records if record.name.startswith("loomsvc"))


@pytest.mark.rule("K4")
def test_the_word_loom_in_an_id_is_no_credential(client: Client) -> None:
    assert client.get("/api/v1/things/loom_test_report").status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/api/v1/nothing", 404), ("POST", "/api/v1/nothing", 404), ("OPTIONS", "/api/v1/nothing/at/all", 404),
        ("GET", "/api/v1", 404), ("GET", "/api/v1/", 404), ("GET", "/api/v1/a%0Ab", 404),
        ("DELETE", "/api/v1/status", 405),
        ("POST", "/api/v1/status", 405), ("PUT", "/api/v1/things", 405), ("OPTIONS", "/api/v1/things", 405),
        ("HEAD", "/api/v1/runs/x/pause", 405), ("GET", "/api/v1/runs/x/pause", 405),
        ("POST", "/api/v1/openapi.json", 405),
        ("TRACE", "/api/v1/status", 405), ("BREW", "/api/v1/status", 405), ("HEAD", "/api/v1/status", 200),
    ],
)  # fmt: skip
def test_unknown_addresses_and_methods_are_problems_too(client: Client, method: str, path: str, status: int) -> None:
    response = client.generic(method, path)
    assert response.status_code == status
    if status != 200 and method != "HEAD":
        assert response["Content-Type"] == "application/problem+json"
        assert response.json()["status"] == status
    if status == 405:
        assert response["Allow"]
        assert method not in response["Allow"].split(", ")
