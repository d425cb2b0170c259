"""Asking a client's human in the `initialize` era: `elicitation/create` on the response of the call (H4, H5)."""

# ruff: noqa: F811 - the fixtures come from mcp_live and mcp_asking
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from mcp_asking import ASK, quick, result_of, session, until  # noqa: F401
from mcp_live import KINDS, MODERN, Live, _other_server, _server, effects, live, other  # noqa: F401
from mcp_session import Session, open_session
from mcp_types.methods import SERVER_REQUESTS

from apps.core import threads
from apps.core.errors import ErrorCode, LoomError
from apps.mcp import models, streams, waiting


@pytest.mark.rule("N5", "H4")
@pytest.mark.parametrize("version", ["2025-11-25", "2025-06-18"])
def test_a_form_is_asked_for_on_the_stream_and_its_answer_is_the_tool_s(live: Live, version: str) -> None:
    session = open_session(live, version, {"elicitation": {}})
    stream = session.call("ask", ASK)
    assert stream.response.status == 200
    assert (stream.response.headers["content-type"] or "").startswith("text/event-stream")
    assert stream.response.headers["cache-control"] == "no-store"
    request = stream.message()
    SERVER_REQUESTS["elicitation/create", version].model_validate(request)
    kind = request["params"]["requestedSchema"]["properties"]["kind"]
    if version == "2025-06-18":
        assert (kind["enum"], kind["enumNames"]) == (["p", "o"], ["A person", "Other"])
        assert "mode" not in request["params"]
    else:
        assert kind["oneOf"] == KINDS
        assert request["params"]["mode"] == "form"
    taken = session.answer(request, "accept", {"name": "Ada"})
    assert (taken.status, taken.body) == (202, b"")
    assert result_of(stream) == {"name": "Ada"}
    assert effects.done == ["named Ada"]


@pytest.mark.rule("N5", "H4")
@pytest.mark.parametrize("settled", [False, True], ids=["answered", "settled elsewhere"])
def test_whoever_has_the_reply_is_awaited_no_more(
    session: Session, quick: None, monkeypatch: pytest.MonkeyPatch, settled: bool
) -> None:
    later: list[Callable[[], object]] = []
    monkeypatch.setattr(threads, "start", later.append)
    stream = session.call("ask", ASK)
    form = stream.message()
    if settled:
        effects.settled = LoomError(ErrorCode.CONFLICT, "Answered elsewhere.")
        assert stream.message()["method"] == "notifications/cancelled"
    else:
        assert session.answer(form, "accept", {"name": "Ada"}).status == 202
    assert stream.message()["id"] == 7
    assert session.answer(form, "accept", {"name": "Bob"}).status == 400
    assert not later, "nothing is left to be done"


@pytest.mark.rule("N5", "H4")
def test_the_answer_may_come_in_at_another_web_process(session: Session, other: Live) -> None:
    stream = session.call("ask", ASK)
    assert session.at(other).answer(stream.message(), "accept", {"name": "Ada"}).status == 202
    assert result_of(stream) == {"name": "Ada"}


@pytest.mark.rule("N5")
def test_what_comes_in_where_the_call_waits_is_seen_without_a_look(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "INTERVAL_SECONDS", 60)
    monkeypatch.setattr(streams, "LOOK_SECONDS", 60)
    stream = session.call("ask", ASK)
    request = stream.message()
    assert session.answer(request, "accept", {"name": "Ada"}).status == 202
    assert result_of(stream) == {"name": "Ada"}


@pytest.mark.rule("H4", "FR-B5")
def test_an_answer_that_does_not_do_is_asked_for_again(session: Session) -> None:
    stream = session.call("ask", ASK)
    first = stream.message()
    for poor in ({"name": "A"}, {}, None, {"name": 7}, {"name": "\x00\x00"}, {"name": {"deep": 1}}):
        assert session.answer(first, "accept", poor).status == 202
        again = stream.message()
        assert again["method"] == "elicitation/create"
        assert again["params"]["message"] == "Who are you? Two letters at least."
        assert again["id"] != first["id"]
        first = again
    assert session.answer(first, "accept", {"name": "Ada"}).status == 202
    assert result_of(stream) == {"name": "Ada"}


@pytest.mark.rule("H4")
def test_someone_who_never_answers_validly_is_not_asked_for_ever(session: Session) -> None:
    stream = session.call("ask", ASK)
    for _ in range(streams.MOST_ASKS):
        assert session.answer(stream.message(), "accept", {}).status == 202
    assert result_of(stream) == {"presented": "cancelled"}


@pytest.mark.rule("H4", "H5")
@pytest.mark.parametrize(
    ("reply", "presented"),
    [
        ({"result": {"action": "decline"}}, "declined"),
        ({"result": {"action": "cancel", "content": {"name": "Ada"}}}, "cancelled"),
        ({"error": {"code": -32601, "message": "no forms after all"}}, "unsupported"),
        ({"result": {}}, "unsupported"),
        ({"result": {"action": "accepted", "content": {"name": "Ada"}}}, "unsupported"),
        ({"result": 7}, "unsupported"),
        ({"result": [{"action": "accept"}]}, "unsupported"),
    ],
)
def test_a_form_that_is_put_away_admits_nothing(session: Session, reply: Any, presented: str) -> None:
    stream = session.call("ask", ASK)
    request = stream.message()
    assert session.send({"jsonrpc": "2.0", "id": request["id"], **reply}).status == 202
    assert result_of(stream) == {"presented": presented}
    assert effects.done == []


@pytest.mark.rule("N5")
def test_an_answer_counts_once_in_its_own_session_and_while_it_is_awaited(session: Session, live: Live) -> None:
    stream = session.call("ask", ASK)
    request = stream.message()
    stranger = open_session(live)
    statuses = {
        stranger.answer(request, "accept", {"name": "Eve"}).status,
        live.send({"jsonrpc": "2.0", "id": request["id"], "result": {"action": "accept"}}).status,
        session.answer({"id": "nobody"}, "accept").status,
        session.answer({"id": 7}, "accept").status,
        session.answer({"id": request["id"].upper() + " "}, "accept").status,
        live.send(
            {"jsonrpc": "2.0", "id": request["id"], "result": {}}, headers={"MCP-Protocol-Version": MODERN}
        ).status,
    }
    assert statuses == {400}
    assert session.answer(request, "accept", {"name": "Ada"}).status == 202
    assert session.answer(request, "accept", {"name": "Eve"}).status == 400
    assert result_of(stream) == {"name": "Ada"}
    until(lambda: not models.Wait.objects.exists())
    assert session.answer(request, "accept", {"name": "Eve"}).status == 400
    assert effects.done == ["named Ada"]


@pytest.mark.rule("N5")
@pytest.mark.parametrize(
    ("version", "capabilities"),
    [
        ("2025-11-25", {}),
        ("2025-11-25", {"elicitation": {"url": {}}}),
        ("2025-11-25", {"sampling": {}, "roots": {}}),
        ("2025-03-26", {"elicitation": {}}),
    ],
)
def test_only_a_client_that_declared_forms_is_asked(live: Live, version: str, capabilities: Any) -> None:
    session = open_session(live, version, capabilities)
    found = session.request("tools/call", {"name": "ask", "arguments": ASK})
    assert found.headers["content-type"] == "application/json"
    assert found.json["result"]["structuredContent"] == {"presented": "unsupported"}


@pytest.mark.rule("N5")
def test_without_a_session_nobody_is_asked_and_what_asks_nothing_answers_with_json(live: Live) -> None:
    found = live.legacy("tools/call", {"name": "ask", "arguments": ASK})
    assert found.json["result"]["structuredContent"] == {"presented": "unsupported"}
    session = open_session(live)
    plain = session.request("tools/call", {"name": "echo", "arguments": {"value": 1}, "_meta": {"progressToken": 1}})
    assert plain.headers["content-type"] == "application/json"
    assert session.request("tools/call", {"name": "ask", "arguments": {}}).json["result"]["isError"] is True
