"""Asking a client's human for input under a key, in both eras, socket-level, at two web processes (H4, H5)."""

# ruff: noqa: F811 - the fixtures come from mcp_live
from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from mcp_live import KINDS, LEGACY, MODERN, Live, _other_server, _server, effects, live, modern_meta, other  # noqa: F401
from mcp_session import FORMS, FrozenReader, Session, Stream, open_session
from mcp_types.methods import SERVER_REQUESTS, serialize_server_result

from apps.access.models import Credential
from apps.access.services.credentials import create_credential, revoke_credential
from apps.access.services.projects import ensure_default_project
from apps.core import clock, conf, threads
from apps.core.caller import Source
from apps.core.errors import ErrorCode, LoomError
from apps.mcp import models, streams, waiting

ASK = {"text": "Who are you?"}


@pytest.fixture
def session(live: Live) -> Iterator[Session]:
    opened = open_session(live)
    yield opened
    opened.close()
    until(lambda: not models.Wait.objects.exists())


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks, progress and keep-alives within a test's patience."""
    monkeypatch.setattr(streams, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(streams, "PROGRESS_SECONDS", 0.1)
    monkeypatch.setattr(streams, "KEEP_ALIVE_SECONDS", 0.1)


def until(holds: Callable[[], bool], seconds: float = 10) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def result_of(stream: Stream) -> Any:
    """The reply's structured result; the stream ends with it."""
    message = stream.message()
    assert message["id"] == 7, message
    assert stream.message() is None
    return message["result"]["structuredContent"]


# -- the initialize era: elicitation/create on the response of the call ------------------------------


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


@pytest.mark.rule("N5", "FR-F3")
@pytest.mark.parametrize("call", [7, "seven", 2**60])
def test_a_cancelled_call_stops_waiting_and_nothing_is_said_for_it(session: Session, other: Live, call: Any) -> None:
    stream = session.call("ask", ASK, request_id=call)
    request = stream.message()
    for beside in ("8", 7.5, None, [7]):
        assert session.notify("notifications/cancelled", {"requestId": beside}).status == 202
        assert not models.Wait.objects.get().cancelled
    assert session.at(other).notify("notifications/cancelled", {"requestId": call}).status == 202
    assert stream.message() is None
    until(lambda: session.answer(request, "accept", {"name": "Ada"}).status == 400)
    assert effects.done == []


@pytest.mark.rule("N5", "F18")
def test_a_dropped_stream_ends_the_wait_and_a_new_call_asks_again(session: Session) -> None:
    stream = session.call("ask", ASK)
    request = stream.message()
    stream.close()
    until(lambda: not models.Wait.objects.exists())
    assert session.answer(request, "accept", {"name": "Ada"}).status == 400
    again = session.call("ask", ASK)
    assert session.answer(again.message(), "accept", {"name": "Ada"}).status == 202
    assert result_of(again) == {"name": "Ada"}


@pytest.mark.rule("N5")
def test_progress_and_keep_alives_go_out_while_a_call_waits(session: Session, quick: None) -> None:
    stream = session.call("ask", ASK, meta={"progressToken": "t"})
    request = stream.message()
    notes = [stream.message(), stream.message()]
    assert [note["method"] for note in notes] == ["notifications/progress"] * 2
    assert {note["params"]["progressToken"] for note in notes} == {"t"}
    assert notes[0]["params"]["progress"] < notes[1]["params"]["progress"]
    assert stream.comments
    session.answer(request, "accept", {"name": "Ada"})
    while (last := stream.message()).get("id") != 7:
        pass
    assert last["result"]["structuredContent"] == {"name": "Ada"}


@pytest.mark.rule("N5")
def test_nobody_who_did_not_ask_for_progress_gets_any(session: Session, quick: None) -> None:
    stream = session.call("ask", ASK)
    request = stream.message()
    until(lambda: stream.response.readline().startswith(b": ping"))
    until(lambda: stream.response.readline().startswith(b": ping"))
    session.answer(request, "accept", {"name": "Ada"})
    assert result_of(stream) == {"name": "Ada"}


@pytest.mark.rule("H3", "H4")
def test_what_was_settled_elsewhere_ends_the_wait_and_withdraws_the_form(session: Session, quick: None) -> None:
    stream = session.call("ask", ASK)
    request = stream.message()
    effects.settled = LoomError(ErrorCode.CONFLICT, "Somebody else has said it.")
    withdrawn = stream.message()
    assert withdrawn["method"] == "notifications/cancelled"
    assert withdrawn["params"]["requestId"] == request["id"]
    assert result_of(stream)["error"]["message"] == "Somebody else has said it."


@pytest.mark.rule("K12")
def test_revoking_the_credential_closes_its_streams_within_five_seconds(session: Session) -> None:
    stream = session.call("ask", ASK)
    request = stream.message()
    began = time.monotonic()
    public_id = Credential.objects.get(source="agent_ide").public_id
    revoke_credential(public_id=public_id, now=clock.now())
    assert stream.message()["method"] == "notifications/cancelled"
    last = stream.message()
    assert last["id"] == 7
    assert last["error"]["data"]["code"] == "UNAUTHENTICATED"
    assert stream.message() is None
    assert time.monotonic() - began < 5
    assert session.answer(request, "accept", {"name": "Ada"}).status == 401


@pytest.mark.rule("N5")
def test_ending_the_session_ends_its_waits(session: Session, other: Live) -> None:
    stream = session.call("ask", ASK)
    stream.message()
    assert session.at(other).send(b"", method="DELETE").status == 204
    assert stream.message()["method"] == "notifications/cancelled"
    assert "initialize" in stream.message()["error"]["message"]
    assert stream.message() is None


@pytest.mark.rule("H5")
def test_a_form_that_nobody_looks_at_is_given_up_after_its_time(session: Session, quick: None, settings: Any) -> None:
    settings.LOOMSVC = replace(conf.settings(), form_seconds=0.2)
    stream = session.call("ask", ASK)
    stream.message()
    assert stream.message()["method"] == "notifications/cancelled"
    assert result_of(stream) == {"presented": "cancelled"}


@pytest.mark.rule("FR-F15", "F25")
def test_readers_that_stop_reading_are_dropped_and_hold_up_nobody(
    session: Session, live: Live, quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "SEND_SECONDS", 0.3)
    frozen = [FrozenReader(session, "ask", {"text": "Who? " * 200_000}) for _ in range(20)]
    until(lambda: models.Wait.objects.count() > 0)
    until(lambda: live.legacy("ping").status == 200 and not models.Wait.objects.exists())
    assert session.call("ask", ASK).message()["method"] == "elicitation/create"
    for reader in frozen:
        reader.close()


@pytest.mark.rule("K24")
def test_a_credential_holds_a_bounded_number_of_streams_open(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "MOST_OF_A_CREDENTIAL", 2)
    held = [session.call("ask", ASK) for _ in range(2)]
    for stream in held:
        stream.message()
    refused = session.request("tools/call", {"name": "ask", "arguments": ASK})
    assert refused.status == 429
    assert refused.json["id"] == 1
    assert refused.json["error"]["data"]["code"] == "RATE_LIMITED"
    held[0].close()
    until(lambda: models.Wait.objects.count() == 1)
    assert session.call("ask", ASK).message()["method"] == "elicitation/create"
    monkeypatch.setattr(streams, "MOST", 0)
    assert session.request("tools/call", {"name": "ask", "arguments": ASK}).status == 503


# -- revision 2026-07-28: an input-required result, and the call again --------------------------------


def modern_ask(live: Live, *, meta: Any = None, arguments: Any = ASK, **more: Any) -> Any:
    options = {name: more.pop(name) for name in ("path", "source") if name in more}
    envelope = meta or {**modern_meta(), "io.modelcontextprotocol/clientCapabilities": FORMS}
    return live.modern("tools/call", {"name": "ask", "arguments": arguments, **more}, meta=envelope, **options)


def asked(live: Live, **options: Any) -> Any:
    answer = modern_ask(live, **options)
    assert answer.status == 200, answer.body
    result = answer.json["result"]
    assert result["resultType"] == "input_required"
    assert serialize_server_result("tools/call", MODERN, result) == result
    return result


ACCEPT = {"name": {"action": "accept", "content": {"name": "Ada"}}}


@pytest.mark.rule("N5", "H4")
def test_a_modern_call_gets_its_question_and_is_answered_at_any_process(live: Live, other: Live) -> None:
    question = asked(live)
    assert question["inputRequests"]["name"]["method"] == "elicitation/create"
    assert question["inputRequests"]["name"]["params"]["requestedSchema"]["properties"]["kind"]["oneOf"] == KINDS
    done = modern_ask(other, inputResponses=ACCEPT, requestState=question["requestState"])
    assert done.json["result"]["structuredContent"] == {"name": "Ada"}
    assert done.json["result"]["resultType"] == "complete"


@pytest.mark.rule("N5", "H4", "H5")
@pytest.mark.parametrize(
    ("responses", "presented"),
    [
        ({"name": {"action": "decline"}}, "declined"),
        ({"name": {"action": "cancel"}}, "cancelled"),
    ],
)
def test_a_modern_form_that_is_put_away_admits_nothing(live: Live, responses: Any, presented: str) -> None:
    state = asked(live)["requestState"]
    done = modern_ask(live, inputResponses=responses, requestState=state)
    assert done.json["result"]["structuredContent"] == {"presented": presented}
    assert effects.done == []


@pytest.mark.rule("N5", "H4")
@pytest.mark.parametrize(
    "responses",
    [None, {}, {"other": {"action": "accept", "content": {"name": "Ada"}}}, {"name": {"roots": []}}],
    ids=repr,
)
def test_missing_responses_are_asked_for_again_and_others_ignored(live: Live, responses: Any) -> None:
    state = asked(live)["requestState"]
    given = {} if responses is None else {"inputResponses": responses}
    again = asked(live, requestState=state, **given)
    assert again["inputRequests"]["name"]["params"]["message"] == "Who are you?"
    more = {"extra": {"action": "decline"}, **ACCEPT}
    done = modern_ask(live, inputResponses=more, requestState=again["requestState"])
    assert done.json["result"]["structuredContent"] == {"name": "Ada"}


@pytest.mark.rule("N5", "H4")
def test_a_modern_answer_that_does_not_do_is_asked_for_again(live: Live) -> None:
    state = asked(live)["requestState"]
    poor = {"name": {"action": "accept", "content": {"name": "A"}}}
    again = asked(live, inputResponses=poor, requestState=state)
    assert "Two letters" in again["inputRequests"]["name"]["params"]["message"]


@pytest.mark.rule("N5", "H6")
def test_responses_that_were_not_asked_for_mean_nothing(live: Live) -> None:
    asked(live, inputResponses=ACCEPT)
    assert effects.done == []


@pytest.mark.rule("N5")
def test_a_state_that_is_forged_foreign_or_too_old_is_refused(live: Live) -> None:
    state = asked(live)["requestState"]
    body, _, signature = state.rpartition(":")

    def refused(**options: Any) -> bool:
        answer = modern_ask(live, inputResponses=ACCEPT, **options)
        return bool(answer.status == 400 and answer.error_code == -32602)

    forged = ["", ":", state + "x", state[1:], f"{body[:-2]}AA:{signature}", f"{body}:", "x" * 100_000, "ü", "\ud83d"]
    assert [text for text in forged if not refused(requestState=text)] == []
    assert refused(requestState=state, arguments={"text": "Who else?"})
    assert refused(requestState=state, arguments={"text": "Who?\x00"})
    assert refused(requestState=state, path="/mcp/codex")
    assert refused(requestState=state, path="/internal/mcp", source="cli")
    with clock.moved(dt.timedelta(seconds=conf.settings().form_seconds)):
        assert refused(requestState=state)
    assert effects.done == []
    echo = live.modern("tools/call", {"name": "echo", "arguments": ASK, "requestState": state})
    assert (echo.status, echo.error_code) == (400, -32602)
    assert not refused(requestState=state)


@pytest.mark.rule("N5")
def test_another_credential_of_the_same_project_cannot_use_a_state(live: Live) -> None:
    state = asked(live)["requestState"]
    project = ensure_default_project(now=clock.now())
    _, token = create_credential(project=project, source=Source.AGENT_IDE, label="neighbour", now=clock.now())
    stranger = Live(live.port, {"agent_ide": token})
    assert modern_ask(stranger, inputResponses=ACCEPT, requestState=state).error_code == -32602


@pytest.mark.rule("N5")
@pytest.mark.parametrize("capabilities", [{}, {"elicitation": {"url": {}}}, {"sampling": {}}])
def test_a_modern_client_without_forms_gets_the_action_as_data(live: Live, capabilities: Any) -> None:
    meta = {**modern_meta(), "io.modelcontextprotocol/clientCapabilities": capabilities}
    answer = modern_ask(live, meta=meta)
    assert answer.json["result"]["structuredContent"] == {"presented": "unsupported"}
