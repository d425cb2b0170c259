"""One Endpoint, every face: each registered Endpoint at every Entry that lists it, and over REST.

A new Endpoint is covered as soon as it is registered.
"""

# ruff: noqa: F811 - the fixtures come from site_live
from __future__ import annotations

import json
import re
from typing import Any

import jsonschema
import pytest
from every_endpoint import arguments_for, endpoints, entries_of, over_rest, things_of, unknown_things
from site_live import ENTRY_OF, Site, _site_port, identity, site, stranger  # noqa: F401

from apps.core.contracts import Contract
from apps.core.endpoints import Endpoint

ENDPOINTS = endpoints()
TOOLS = [endpoint for endpoint in ENDPOINTS if endpoint.tool]
ROUTED = [endpoint for endpoint in ENDPOINTS if endpoint.route is not None]
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_TOKEN = re.compile(r"loom_(?:owner|session)_\w+-?[\w-]*")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z")
#: What rightly differs with the door that a call came through.
_OF_THE_DOOR = {"source", "agentExecutor", "notReadyBecause", "ready", "via", "profile"}


def by_name(endpoint: Endpoint[Any, Any]) -> str:
    return endpoint.name


def without_door(body: Any) -> Any:
    if isinstance(body, dict):
        return {name: without_door(value) for name, value in body.items() if name not in _OF_THE_DOOR}
    return [without_door(value) for value in body] if isinstance(body, list) else body


def gist(body: Any) -> str:
    """``body`` without ids, tokens, times and what differs with the door."""
    text = json.dumps(without_door(body), indent=1, sort_keys=True, ensure_ascii=False)
    seen: dict[str, str] = {}
    text = _TOKEN.sub("token", text)
    text = _UUID.sub(lambda found: seen.setdefault(found[0], f"id {len(seen)}"), text)
    return _TIME.sub("time", text)


def problem_as_result(body: dict[str, Any]) -> dict[str, Any]:
    """A problem as the Tool result that says the same; what has a form of its own says it as it is."""
    if "request_id" in body:
        return body
    error = {name: body[name] for name in ("code", "message", "retryable", "details", "validation") if name in body}
    return {"error": error, **{name: body[name] for name in ("receipt", "run") if name in body}}


def answers(site: Site, endpoint: Endpoint[Any, Any], prepare: Any) -> dict[str, str]:
    """Face → gist of its answer; ``prepare`` makes the arguments anew for each, for writes change things."""
    found = {}
    for entry in entries_of(endpoint):
        found[entry] = gist(site.tool(endpoint.name, prepare(), entry=entry)["structuredContent"])
    if endpoint.route is not None:
        reply = over_rest(site, endpoint, prepare())
        missing = endpoint.route.null_is_missing
        if reply.status == 404 and missing and f"No such {missing}" in reply.json["message"]:
            found["rest"] = gist({missing: None})
        else:
            found["rest"] = gist(reply.json if reply.status == 200 else problem_as_result(reply.json))
    return found


@pytest.mark.rule("E1", "N6")
@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=by_name)
@pytest.mark.parametrize("things", ["known", "unknown", "none"])
def test_every_face_gives_the_same_answer(site: Site, service: Any, endpoint: Endpoint[Any, Any], things: str) -> None:
    world = things_of(service) if things == "known" else unknown_things()

    def prepare() -> dict[str, Any]:
        known = things_of(service) if things == "known" and not endpoint.read_only else world
        own = identity(service) if not endpoint.read_only else {"serviceInstanceId": service.instance_id}
        arguments = arguments_for(endpoint, {**known, **own})
        if things == "none" and not endpoint.read_only:
            return {name: arguments[name] for name in ("runId", "actionId", "id", "mirrorId") if name in arguments}
        return arguments

    found = answers(site, endpoint, prepare)
    assert found
    assert len(set(found.values())) == 1, found


@pytest.mark.rule("N6", "E1", "O6")
@pytest.mark.parametrize("endpoint", TOOLS, ids=by_name)
def test_what_a_tool_answers_fits_its_listed_output_schema(
    site: Site, service: Any, endpoint: Endpoint[Any, Any]
) -> None:
    known = {**things_of(service), **({} if endpoint.read_only else identity(service))}
    unknown = {**unknown_things(), **identity(service)}
    for entry in entries_of(endpoint):
        listed = site.mcp({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}, entry=entry).json["result"]["tools"]
        schema = next(tool["outputSchema"] for tool in listed if tool["name"] == endpoint.name)
        validator = jsonschema.Draft202012Validator(schema)
        calls = [arguments_for(endpoint, known), arguments_for(endpoint, unknown), {"no such": 1}, []]
        for arguments in calls:
            result = site.tool(endpoint.name, arguments, entry=entry)
            validator.validate(result["structuredContent"])
            assert json.loads(result["content"][0]["text"]) == result["structuredContent"]
            assert result["isError"] == bool(result["structuredContent"].get("error"))


@pytest.mark.rule("K10", "E5")
@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=by_name)
def test_another_projects_ids_answer_exactly_as_unknown_ones(
    site: Site, stranger: Site, service: Any, endpoint: Endpoint[Any, Any]
) -> None:
    foreign = things_of(service)
    before = service.run(foreign["runId"])

    def ask(face: str, known: dict[str, Any]) -> str:
        arguments = arguments_for(endpoint, {**known, "serviceInstanceId": service.instance_id})
        if face == "rest":
            reply = over_rest(stranger, endpoint, arguments)
            kept = {k: v for k, v in reply.headers.items() if k not in ("date", "content-length")}
            answer: Any = [reply.status, kept, reply.json]
        else:
            answer = stranger.tool(endpoint.name, arguments, entry=face)
        text = gist(answer)
        for name in ("artifactId", "recordId"):
            text = text.replace(json.dumps(known[name])[1:-1], name)
        return text

    for face in [*entries_of(endpoint), *(["rest"] if endpoint.route else [])]:
        # A write with another Project's operationId and other ids is a write of one's own.
        for attempt in (foreign, {**foreign, "operationId": unknown_things()["operationId"]}):
            never = {**unknown_things(), "answer": attempt["answer"], "expectedRevision": attempt["expectedRevision"]}
            if not endpoint.read_only and attempt is foreign and face != entries_of(endpoint)[0]:
                continue  # one identity, one Entry: elsewhere it is a CONFLICT with itself
            assert ask(face, attempt) == ask(face, never), (endpoint.name, face)
    after = service.run(foreign["runId"])
    assert after == before, "and nothing happened to it"


@pytest.mark.rule("K26", "E6")
@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=by_name)
def test_an_unforeseen_exception_is_generic_on_every_face(
    site: Site,
    service: Any,
    endpoint: Endpoint[Any, Any],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    secret = "SELECT secret_digest FROM /srv/loomsvc/settings"

    def crash(*_: Any) -> Any:
        raise RuntimeError(secret)

    arguments = arguments_for(endpoint, {**unknown_things(), **identity(service)})
    monkeypatch.setattr(Contract, "parse", classmethod(crash))
    answers = [site.tool(endpoint.name, arguments, entry=entry)["structuredContent"] for entry in entries_of(endpoint)]
    if endpoint.route is not None:
        reply = over_rest(site, endpoint, arguments)
        assert reply.status == 500
        answers.append(problem_as_result(reply.json))
    for answer in answers:
        error = answer["error"]
        assert error["code"].upper() == "INTERNAL"
        (incident,) = _UUID.findall(error["message"])
        assert endpoint.error_form or (error["details"], error["retryable"]) == ({"incident": incident}, False)
        assert any(incident in record.getMessage() for record in caplog.records)
        assert "SELECT" not in json.dumps(answer)
        assert "/srv" not in json.dumps(answer)


@pytest.mark.parametrize("endpoint", [e for e in TOOLS if e.read_only], ids=by_name)
def test_a_read_costs_few_statements_however_much_there_is(service: Any, endpoint: Endpoint[Any, Any]) -> None:
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    def statements() -> int:
        known = {**things_of(service), "serviceInstanceId": service.instance_id}
        with CaptureQueriesContext(connection) as said:
            service.call(endpoint.name, **arguments_for(endpoint, known))
        return len(said)

    first = statements()
    assert first <= 4
    for _ in range(3):
        things_of(service)
    assert statements() == first


@pytest.mark.rule("N1")
def test_every_tool_is_listed_where_the_contract_says(site: Site) -> None:
    for entry in ENTRY_OF:
        listed = site.mcp({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}, entry=entry).json["result"]["tools"]
        assert {tool["name"] for tool in listed} == {e.name for e in TOOLS if entry in entries_of(e)}
