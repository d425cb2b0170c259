"""The OpenAPI document, the page that shows it, and ``/health``."""

from __future__ import annotations

import json
import threading
import time
from typing import Any

import jsonschema
import pytest
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.db import OperationalError
from django.test import Client
from openapi_spec_validator import validate
from rest_sample import ENDPOINTS, ThingRef, echo, make, serve, signed_in

from apps.core.contracts import Contract, UuidText
from apps.core.endpoints import Route, all_endpoints
from apps.rest import health
from apps.rest.documents import Patterns, document
from apps.rest.urls import patterns_for

pytestmark = pytest.mark.django_db


def described(endpoints: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(document(Patterns(patterns_for(endpoints)))))
    return found


def test_the_served_document_is_valid_openapi_3_1(settings: Any) -> None:
    serve(settings)
    response = signed_in().get("/api/v1/openapi.json")
    assert (response.status_code, response["Content-Type"]) == (200, "application/json")
    assert response.json()["openapi"].startswith("3.1")
    validate(response.json())


def test_the_document_of_the_real_endpoints_is_valid_and_holds_each_route() -> None:
    real = [endpoint for endpoint in all_endpoints() if endpoint.route]
    found = described(real)
    validate(found)
    operations = {op["operationId"] for methods in found["paths"].values() for op in methods.values()}
    assert operations == {endpoint.name for endpoint in real}


def test_drf_spectacular_has_nothing_to_warn_about(
    settings: Any, tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    serve(settings)
    call_command("spectacular", "--validate", "--fail-on-warn", "--file", str(tmp_path / "openapi.yaml"))
    assert "paths:" in (tmp_path / "openapi.yaml").read_text()


def test_each_endpoint_with_a_route_is_described_once() -> None:
    found = described(ENDPOINTS)
    paths = {(method, path) for path, methods in found["paths"].items() for method in methods}
    assert paths == {(e.route.method.lower(), f"/api/v1{e.route.path}") for e in ENDPOINTS if e.route}
    for methods in found["paths"].values():
        for operation in methods.values():
            assert operation["security"] == [{"bearer": []}]
            assert operation["summary"]
            assert operation["responses"]["4XX"]["content"]["application/problem+json"]["schema"] == {
                "$ref": "#/components/schemas/Problem"
            }
    assert found["components"]["securitySchemes"]["bearer"]["scheme"] == "bearer"


def test_what_the_path_says_is_no_member_of_the_body_and_the_rest_of_a_get_is_its_query() -> None:
    paths = described(ENDPOINTS)["paths"]
    pause = paths["/api/v1/runs/{runId}/pause"]["post"]
    body = pause["requestBody"]["content"]["application/json"]["schema"]
    assert set(body["properties"]) == {"operationId", "note", "data"}
    assert body["required"] == ["operationId"]
    assert body["additionalProperties"] is False
    assert [(p["name"], p["in"], p["required"]) for p in pause["parameters"]] == [("runId", "path", True)]
    query = {p["name"]: p for p in paths["/api/v1/things"]["get"]["parameters"]}
    assert set(query) == {"limit", "cursor", "status", "deep", "code"}
    assert (query["limit"]["schema"]["maximum"], query["limit"]["required"]) == (200, False)
    assert query["deep"]["schema"]["type"] == "boolean"


def test_contracts_of_one_name_get_component_names_of_their_own() -> None:
    def twin(kind: type[Any]) -> type[Contract]:
        class Thing(Contract):
            inner: kind  # type: ignore[valid-type]

        Thing.__module__ = Thing.__qualname__ = f"twin_{kind.__name__}"
        Thing.__qualname__ = "Thing"
        return Thing

    texts, numbers = twin(str), twin(int)
    found = described(
        [
            make("texts", ThingRef, echo, Route("GET", "/texts"), texts),
            make("numbers", ThingRef, echo, Route("GET", "/numbers"), numbers),
        ]
    )
    schemas = found["components"]["schemas"]

    def output(path: str) -> Any:
        reference = found["paths"][path]["get"]["responses"]["200"]["content"]["application/json"]["schema"]["$ref"]
        return schemas[reference.rpartition("/")[2]]["properties"]["inner"]["type"]

    assert (output("/api/v1/texts"), output("/api/v1/numbers")) == ("string", "integer")


def test_a_contract_used_as_input_and_as_output_is_described_as_each() -> None:
    class Both(Contract):
        run_id: UuidText
        note: str | None = None

    found = described([make("both", Both, echo, Route("POST", "/both"), Both)])
    validate(found)
    operation = found["paths"]["/api/v1/both"]["post"]
    schemas = found["components"]["schemas"]
    given = operation["requestBody"]["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
    back = operation["responses"]["200"]["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
    assert "anyOf" in schemas[given]["properties"]["note"]
    assert schemas[back]["properties"]["note"]["type"] == "string"


def test_answers_fit_the_schemas_they_are_described_with(settings: Any) -> None:
    serve(settings)
    client, found = signed_in(), described(ENDPOINTS)

    def check(path: str, url: str) -> None:
        response = client.get(url)
        media = response["Content-Type"]
        status = "200" if response.status_code == 200 else f"{response.status_code // 100}XX"
        schema = found["paths"][path]["get"]["responses"][status]["content"][media]["schema"]
        jsonschema.validate(response.json(), {**schema, "components": found["components"]})

    check("/api/v1/things", "/api/v1/things?limit=5")
    check("/api/v1/things", "/api/v1/things?limit=0")
    check("/api/v1/things/{thingId}", "/api/v1/things/a")
    check("/api/v1/things/{thingId}", "/api/v1/things/missing")
    check("/api/v1/failures/{kind}", "/api/v1/failures/receipt")
    check("/api/v1/failures/{kind}", "/api/v1/failures/bug")


@pytest.mark.rule("K9", "K16")
@pytest.mark.parametrize("path", ["/api/v1/docs", "/api/v1/openapi.json"])
def test_the_document_and_its_page_open_for_signed_in_staff_and_for_a_credential_only(settings: Any, path: str) -> None:
    serve(settings)
    users = get_user_model().objects
    guest, staff = Client(), Client()
    guest.force_login(users.create_user("guest", password="x"))
    staff.force_login(users.create_user("staff", password="x", is_staff=True))
    assert guest.get(path).status_code == 401
    assert staff.get(path).status_code == 200
    assert staff.post(path).status_code == 405
    assert signed_in().get(path).status_code == 200
    assert staff.get("/api/v1/status").status_code == 401


@pytest.mark.rule("K16")
def test_the_page_has_no_inline_script(settings: Any) -> None:
    serve(settings)
    client = signed_in()
    page = client.get("/api/v1/docs").content.decode()
    assert page.count("<script") == page.count('<script src="/') == 3
    script = client.get("/api/v1/docs?script=")
    assert script["Content-Type"].startswith("application/javascript")
    assert "/api/v1/openapi.json" in script.content.decode()


@pytest.mark.django_db(transaction=True)
@pytest.mark.rule("K9")
@pytest.mark.parametrize("path", ["/health", "/health/"])
def test_health_says_ok_to_anyone_and_nothing_else(settings: Any, path: str) -> None:
    serve(settings)
    response = Client().get(path)
    assert (response.status_code, response.json()) == (200, {"status": "ok"})
    assert "no-store" in response["Cache-Control"]
    assert Client().head(path).status_code == 200
    assert Client().post(path).status_code == 405


class _Hanging:
    """A connection whose database never answers, or refuses."""

    def __init__(self, release: threading.Event | None) -> None:
        self.release = release

    def cursor(self) -> Any:
        if self.release is None:
            raise OperationalError("no route to /srv/secret")
        self.release.wait(30)
        raise OperationalError("cut")

    def close(self) -> None:
        pass


def test_health_is_503_when_the_database_refuses(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    serve(settings)
    monkeypatch.setattr(health, "connection", _Hanging(None))
    response = Client().get("/health")
    assert (response.status_code, response.json()) == (503, {"status": "unavailable"})


def test_health_is_503_in_time_and_with_one_thread_when_the_database_hangs(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve(settings)
    release = threading.Event()
    monkeypatch.setattr(health, "connection", _Hanging(release))
    monkeypatch.setattr(health, "PATIENCE", 0.3)
    before = threading.active_count()
    started = time.monotonic()
    assert [Client().get("/health").status_code for _ in range(3)] == [503, 503, 503]
    assert time.monotonic() - started < 5
    assert threading.active_count() <= before + 1
    release.set()
