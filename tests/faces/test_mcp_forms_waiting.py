"""How a call waits for a form in the `initialize` era, and what ends its wait (H3, H5, K12, K24)."""

# ruff: noqa: F811 - the fixtures come from mcp_live and mcp_asking
from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest
from mcp_asking import ASK, quick, result_of, session, until  # noqa: F401
from mcp_live import Live, _other_server, _server, effects, live, other  # noqa: F401
from mcp_session import FrozenReader, Session

from apps.access.models import Credential
from apps.access.services.credentials import revoke_credential
from apps.core import clock, conf
from apps.core.errors import ErrorCode, LoomError
from apps.mcp import models, streams


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
@pytest.mark.parametrize("meta", [None, {"progressToken": True}], ids=repr)
def test_nobody_who_did_not_ask_for_progress_gets_any(session: Session, quick: None, meta: Any) -> None:
    stream = session.call("ask", ASK, meta=meta)
    request = stream.message()
    lines: list[bytes] = []
    while sum(line.startswith(b": ping") for line in lines) < 4:
        lines.append(stream.response.readline())
        assert lines[-1], "the stream has ended"
    assert not [line for line in lines if b"progress" in line]
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
