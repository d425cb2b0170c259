"""`interact` on the whole site: the Action of a Run in a form of the client's, in both eras (H4–H6)."""

# ruff: noqa: F811 - the fixtures come from site_live
from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp_live import MODERN, Live, modern_meta
from mcp_session import FORMS, Session, Stream, open_session
from site_live import Site, _site_port, site  # noqa: F401

from apps.ledger.models import Operation
from apps.mcp import streams
from apps.runs.models import Action
from tests.conftest import Service

STEPS = """
from loomsvc.authoring import CodeStep, Option, Question

OPTIONS = [Option(id="r", label="Red"), Option(id="b", label="Blue", description="as the sea")]

def choose(step: CodeStep):
    questions = [
        Question(id="colour", question="Which colour?", options=OPTIONS),
        Question(id="note", question="Anything else?", is_skippable=True),
    ]
    return step.ask(questions, then=chosen, only_person=True)

def chosen(step: CodeStep, answers):
    step.append_record([[one.question_id, one.answer] for one in answers], record_id=f"chosen-{step.run_id}")
    return "done"
"""
LOOM = """
loom: paint
title: Paint
description: Asks for a colour.
entry: work
stages:
  work:
    entry: choose
    steps:
      choose: {code: "steps:choose", on: {done: end}}
    on: {done: end}
"""


@pytest.fixture
def run(service: Service, loom_paths: Path) -> dict[str, Any]:
    """A Run that waits for a colour."""
    folder = loom_paths / "paint"
    folder.mkdir()
    (folder / "loom.yaml").write_text(LOOM)
    (folder / "steps.py").write_text(STEPS)
    started = service.operate("run", loomName="paint", input={})
    service.work()
    waiting = service.run(started["run"]["runId"])
    assert waiting["status"] == "waiting", waiting
    return waiting


@pytest.fixture
def agent(site: Site, monkeypatch: pytest.MonkeyPatch) -> Live:
    """A client at the Entry of agents."""
    monkeypatch.setattr(streams, "LOOK_SECONDS", 0.05)
    return Live(site.port, site.tokens)


@pytest.fixture
def session(agent: Live) -> Iterator[Session]:
    opened = open_session(agent)
    yield opened
    opened.close()


def asking(service: Service, run: dict[str, Any]) -> dict[str, Any]:
    """Arguments of `interact` under a fresh identity."""
    identity = {"operationId": str(uuid.uuid4()), "serviceInstanceId": service.instance_id}
    return {**identity, "runId": run["runId"], "actionId": run["pendingAction"]["id"]}


def result_of(stream: Stream) -> Any:
    while (message := stream.message()).get("id") != 7:
        pass
    return message["result"]["structuredContent"]


@pytest.mark.rule("H4", "H6", "O3")
def test_a_person_answers_in_their_client_and_the_same_call_again_has_the_receipt(
    service: Service, run: dict[str, Any], session: Session
) -> None:
    arguments = asking(service, run)
    stream = session.call("interact", arguments)
    form = stream.message()["params"]
    assert form["message"].startswith("1. Which colour?")
    assert not Operation.objects.filter(operation_id=arguments["operationId"]).exists()
    stream.close()

    stream = session.call("interact", arguments)
    form = stream.message()
    assert session.answer(form, "accept", {"answer1": "b", "skip2": True}).status == 202
    done = result_of(stream)
    assert set(done) == {"receipt", "run"}
    assert (done["receipt"]["status"], done["receipt"]["kind"]) == ("accepted", "interact")
    given = Action.objects.get(pk=run["pendingAction"]["id"])
    assert given.answered_by["via"] == "native"
    assert given.answered_by["source"] == "agent_ide"

    again = session.request("tools/call", {"name": "interact", "arguments": arguments})
    assert again.headers["content-type"] == "application/json", "nothing is asked"
    assert again.json["result"]["structuredContent"]["receipt"] == done["receipt"]
    service.work()
    assert service.run(run["runId"])["status"] == "completed"
    record = service.call("get_record", recordId=f"chosen-{run['runId']}")["record"]
    assert record["data"] == [["colour", "b"], ["note", None]]


@pytest.mark.rule("H4", "FR-B5")
def test_an_incomplete_form_is_shown_again_with_what_it_lacks(
    service: Service, run: dict[str, Any], session: Session
) -> None:
    stream = session.call("interact", asking(service, run))
    first = stream.message()
    session.answer(first, "accept", {"answer1": "b", "answer1InOwnWords": "Green"})
    second = stream.message()
    assert "not both" in second["params"]["message"]
    assert "Which colour?" in second["params"]["message"]
    session.answer(second, "accept", {"answer1InOwnWords": "Green"})
    assert result_of(stream)["receipt"]["status"] == "accepted"
    assert Action.objects.get(pk=run["pendingAction"]["id"]).answer[0]["answer"] == "Green"


@pytest.mark.rule("H5")
@pytest.mark.parametrize(("action", "presented"), [("decline", "declined"), ("cancel", "cancelled")])
def test_a_form_that_is_put_away_keeps_the_run_waiting_and_stores_nothing(
    service: Service, run: dict[str, Any], session: Session, action: str, presented: str
) -> None:
    before = Operation.objects.count()
    stream = session.call("interact", asking(service, run))
    session.answer(stream.message(), action)
    assert result_of(stream) == {"action": run["pendingAction"], "run": run, "presented": presented}
    assert Operation.objects.count() == before
    assert service.run(run["runId"]) == run


@pytest.mark.rule("H3", "H4")
def test_whoever_is_late_hears_who_answered_and_when(service: Service, run: dict[str, Any], session: Session) -> None:
    arguments = asking(service, run)
    stream = session.call("interact", arguments)
    form = stream.message()
    answer = [
        {"questionId": "colour", "isSkipped": False, "answer": "r"},
        {"questionId": "note", "isSkipped": True},
    ]
    first = service.operate("answer_ask", runId=run["runId"], actionId=arguments["actionId"], answer=answer)
    service.work()
    assert service.run(run["runId"])["status"] == "completed"
    error = result_of(stream)["error"]
    assert error["code"] == "CONFLICT"
    assert "credential:test (cli, via cli)" in error["message"]
    assert first["receipt"]["decidedAt"][:19] in error["message"]
    assert error["details"]["answeredBy"] == {"principal": "credential:test", "source": "cli", "via": "cli"}
    late = service.operate("answer_ask", runId=run["runId"], actionId=arguments["actionId"], answer=answer)
    assert late["error"] == late["receipt"]["error"] == error
    assert session.answer(form, "accept", {"answer1": "b"}).status == 400
    assert not Operation.objects.filter(operation_id=arguments["operationId"]).exists()


@pytest.mark.rule("H4")
def test_what_cannot_be_answered_is_refused_before_any_form(
    service: Service, run: dict[str, Any], session: Session
) -> None:
    arguments = asking(service, run)
    for other, code in (
        ({"actionId": str(uuid.uuid4())}, "CONFLICT"),
        ({"runId": str(uuid.uuid4())}, "NOT_FOUND"),
        ({"serviceInstanceId": str(uuid.uuid4())}, "INSTANCE_CHANGED"),
        ({"extra": 1}, "INVALID_REQUEST"),
    ):
        refused = session.request("tools/call", {"name": "interact", "arguments": {**arguments, **other}})
        assert refused.headers["content-type"] == "application/json"
        assert refused.json["result"]["structuredContent"]["error"]["code"] == code


@pytest.mark.rule("N1", "H4")
def test_codex_is_told_who_asks(service: Service, run: dict[str, Any], agent: Live) -> None:
    session = open_session(agent, path="/mcp/codex")
    stream = session.call("interact", asking(service, run))
    assert stream.message()["params"]["message"].startswith("loomsvc · paint\n\n")
    stream.close()


def modern(agent: Live, arguments: Any, **more: Any) -> Any:
    meta = {**modern_meta(), "io.modelcontextprotocol/clientCapabilities": FORMS}
    return agent.modern("tools/call", {"name": "interact", "arguments": arguments, **more}, meta=meta).json["result"]


@pytest.mark.rule("H4", "N5")
def test_a_modern_client_is_asked_under_the_action_s_id_and_calls_again(
    service: Service, run: dict[str, Any], agent: Live
) -> None:
    assert MODERN == "2026-07-28"
    arguments, key = asking(service, run), run["pendingAction"]["id"]
    asked = modern(agent, arguments)
    assert list(asked["inputRequests"]) == [key]
    responses: dict[str, Any] = {key: {"action": "accept", "content": {}}}
    asked = modern(agent, arguments, inputResponses=responses, requestState=asked["requestState"])
    assert "needs an answer" in asked["inputRequests"][key]["params"]["message"]
    responses[key]["content"] = {"answer1": "r"}
    done = modern(agent, arguments, inputResponses=responses, requestState=asked["requestState"])
    assert done["structuredContent"]["receipt"]["status"] == "accepted"
    again = modern(agent, arguments)
    assert again["structuredContent"]["receipt"] == done["structuredContent"]["receipt"]
    late = modern(agent, {**arguments, "operationId": str(uuid.uuid4())})
    assert "via native" in late["structuredContent"]["error"]["message"]
