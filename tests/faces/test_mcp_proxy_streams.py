"""The stdio proxy before a service that streams, keeps sessions and fails (N4, N5, F19)."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from mcp_live import modern_meta
from proxied import Exchange, connect, loopback, proxied

from apps.mcp import conversation, upstream

pytestmark = pytest.mark.rule("N4", "N5", "F19")

OPENED = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "scripted", "version": "1"}}
SESSION = "mcp-session-id"


def notice(text: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": text}}


def response(exchange: Exchange, result: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": exchange.message["id"], "result": result}


class Sessions:
    """A service that keeps sessions, forgets them when told to, and answers by ``call``."""

    def __init__(self, call: Any = None, get: Any = None) -> None:
        self.known: set[str] = set()
        self.made = 0
        self._call = call
        self._get = get

    async def __call__(self, exchange: Exchange) -> None:
        if exchange.says == "initialize":
            self.made += 1
            self.known.add(f"session-{self.made}")
            await exchange.result(OPENED, mcp_session_id=f"session-{self.made}")
        elif exchange.headers.get(SESSION, "") not in self.known:
            await exchange.reply(404, b'{"jsonrpc": "2.0", "id": null, "error": {"code": -32600, "message": "gone"}}')
        elif exchange.says == "GET" and self._get is None:
            await exchange.reply(405)
        elif exchange.says == "GET":
            await self._get(exchange)
        elif exchange.says == "DELETE":
            await exchange.reply(200)
        elif "id" not in exchange.message or "method" not in exchange.message:
            await exchange.reply(202)
        elif self._call is None:
            await exchange.result({"by": exchange.headers[SESSION]})
        else:
            await self._call(exchange)


def test_what_the_service_says_on_the_way_to_its_answer_is_handed_on_as_it_comes(tmp_path: Path) -> None:
    """Progress, a question to the person, the answer back by POST, and then the result."""
    answered: list[Any] = []
    awaited = asyncio.Event()

    async def call(exchange: Exchange) -> None:
        await exchange.events()
        await exchange.event({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progress": 1}})
        question = {"jsonrpc": "2.0", "id": "q-1", "method": "elicitation/create", "params": {"message": "Why\u2028?"}}
        await exchange.event(question)
        await awaited.wait()
        await exchange.event(response(exchange, {"content": [], "said": answered[0]["result"]}))
        await exchange.end()

    sessions = Sessions(call=call)

    async def service(exchange: Exchange) -> None:
        if exchange.says == "answer":
            answered.append(exchange.message)
            awaited.set()
        await sessions(exchange)

    with loopback(service) as at:
        connect(tmp_path, at.port)
        with proxied(tmp_path) as client:
            client.open()
            client.call("interact", id=5)
            assert client.receive()["params"] == {"progress": 1}
            question = client.receive()
            assert question["method"] == "elicitation/create"
            assert question["params"]["message"] == "Why\u2028?"
            client.send(id="q-1", result={"action": "accept", "content": {"text": "weil € 🧵"}})
            assert client.receive()["result"]["said"]["content"] == {"text": "weil € 🧵"}
        back = next(exchange for exchange in at.seen if exchange.says == "answer")
        assert back.headers[SESSION] == "session-1"
        assert back.message["id"] == "q-1"


def test_the_session_and_its_revision_are_sent_with_everything_and_it_is_closed_at_the_end(tmp_path: Path) -> None:
    with loopback(Sessions()) as at:
        connect(tmp_path, at.port)
        with proxied(tmp_path) as client:
            client.open()
            assert client.ask("tools/list")["result"] == {"by": "session-1"}
            client.ask("tools/list", {"_meta": modern_meta()})
        assert at.said()[0] == "initialize"
        assert SESSION not in at.seen[0].headers
        later = [exchange for exchange in at.seen[1:] if "_meta" not in exchange.message.get("params", {})]
        assert {exchange.says for exchange in later} == {"notifications/initialized", "GET", "tools/list", "DELETE"}
        assert all(exchange.headers[SESSION] == "session-1" for exchange in later)
        assert all(exchange.headers["mcp-protocol-version"] == "2025-11-25" for exchange in later)
        (modern,) = [exchange for exchange in at.seen[1:] if exchange not in later]
        assert SESSION not in modern.headers, "the stateless era has none"
        assert modern.headers["mcp-method"] == "tools/list"
        assert at.said()[-1] == "DELETE"


def test_what_follows_an_opening_waits_for_it(tmp_path: Path) -> None:
    go_on = asyncio.Event()
    sessions = Sessions()

    async def slow(exchange: Exchange) -> None:
        if exchange.says == "initialize":
            await go_on.wait()
        await sessions(exchange)

    with loopback(slow) as at:
        connect(tmp_path, at.port)
        with proxied(tmp_path) as client:
            client.send("initialize", {}, id=1)
            client.send("notifications/initialized")
            client.send("tools/list", id=2)
            at.until(lambda: "initialize" in at.said())
            client.write(b"{\n")
            assert client.receive()["error"]["code"] == -32700, "so all of the above has been read"
            assert at.said() == ["initialize"]
            at.call(go_on.set)
            assert client.receive()["id"] == 1
            assert client.receive()["result"] == {"by": "session-1"}
        assert at.said()[:2] == ["initialize", "notifications/initialized"]


def test_a_session_that_a_restart_ended_is_opened_again_once_for_all_that_lost_it(tmp_path: Path) -> None:
    before, after = Sessions(), Sessions()
    after.made = 10
    with loopback(before) as first, loopback(after) as second:
        connect(tmp_path, first.port)
        with proxied(tmp_path) as client:
            client.open()
            assert client.ask("tools/list")["result"] == {"by": "session-1"}
            connect(tmp_path, second.port)
            for number in range(8):
                client.send("tools/list", id=number)
            answers = [client.receive() for _ in range(8)]
            assert {answer["id"] for answer in answers} == set(range(8))
            assert all(answer["result"] == {"by": "session-11"} for answer in answers)
            assert after.made == 11
            (opening,) = [exchange for exchange in second.seen if exchange.says == "initialize"]
            assert opening.message == next(e.message for e in first.seen if e.says == "initialize")
            at = [e.headers.get(SESSION) for e in second.seen if e.says == "notifications/initialized"]
            assert at == ["session-11"]
            after.known.clear()
            assert client.ask("tools/list", id="again")["result"] == {"by": "session-12"}
        assert client.lines.empty(), "the client has had its answer to initialize"


def test_a_service_that_keeps_no_session_is_asked_a_bounded_number_of_times(tmp_path: Path) -> None:
    sessions = Sessions()

    async def call(exchange: Exchange) -> None:
        if exchange.says in ("initialize", "notifications/initialized"):
            await sessions(exchange)
        else:
            await exchange.reply(404)

    with loopback(call) as at:
        connect(tmp_path, at.port)
        with proxied(tmp_path) as client:
            client.open()
            assert "session" in client.ask("tools/list")["error"]["message"]
        assert at.said().count("tools/list") == 2
        assert at.said().count("initialize") == 2


def test_a_refused_opening_is_the_clients_to_see(tmp_path: Path) -> None:
    async def refuse(exchange: Exchange) -> None:
        body = {"jsonrpc": "2.0", "id": exchange.message["id"], "error": {"code": -32602, "message": "no"}}
        await exchange.reply(200, json.dumps(body).encode())

    with loopback(refuse) as at:
        connect(tmp_path, at.port)
        with proxied(tmp_path) as client:
            assert client.ask("initialize", {})["error"] == {"code": -32602, "message": "no"}
            assert client.ask("tools/list")["error"]["code"] == -32602
        assert all(SESSION not in exchange.headers for exchange in at.seen)
        assert at.said() == ["initialize", "tools/list"]


def test_what_the_service_says_unasked_is_handed_on_and_a_broken_stream_taken_up_again(tmp_path: Path) -> None:
    async def listen(exchange: Exchange) -> None:
        await exchange.events()
        if "last-event-id" in exchange.headers:
            await exchange.event(notice("after " + exchange.headers["last-event-id"]))
            await exchange.until_gone()
        else:
            await exchange.event(notice("first"), id="e-1", retry=10)
            await exchange.event({"jsonrpc": "2.0", "id": 1, "result": {}})
            await exchange.write(b"data: no JSON\n\ndata: [1]\n\ndata: {}\n\n")
            await exchange.end()

    with loopback(Sessions(get=listen)) as at:
        connect(tmp_path, at.port)
        with proxied(tmp_path) as client:
            client.open()
            assert client.receive()["params"]["data"] == "first"
            assert client.receive()["params"]["data"] == "after e-1"
            assert client.ask("tools/list")["result"] == {"by": "session-1"}
            assert client.leave() < 2


def broken(at_event: str) -> Sessions:
    """A service whose answer's stream breaks off, and who goes on by GET where there is an event id."""

    async def call(exchange: Exchange) -> None:
        await exchange.events()
        await exchange.event(None, id=at_event, retry=10)
        await exchange.event(notice("soon"))
        raise ConnectionResetError

    async def get(exchange: Exchange) -> None:
        await exchange.events()
        if "last-event-id" not in exchange.headers:
            await exchange.until_gone()
        await exchange.event(notice(exchange.headers["last-event-id"]))
        await exchange.event({"jsonrpc": "2.0", "id": "long", "result": {"late": True}})
        await exchange.end()

    return Sessions(call=call, get=get)


def test_an_answer_whose_stream_broke_off_is_fetched_from_where_it_stopped(tmp_path: Path) -> None:
    with loopback(broken("e-7")) as at:
        connect(tmp_path, at.port)
        with proxied(tmp_path) as client:
            client.open()
            client.call("interact", id="long")
            assert client.receive()["params"]["data"] == "soon"
            assert client.receive()["params"]["data"] == "e-7"
            assert client.receive()["result"] == {"late": True}


@pytest.mark.parametrize(
    ("at_event", "meta"), [("", None), ("e-7", modern_meta())], ids=["no event id", "nothing is resumed when stateless"]
)
def test_an_answer_that_is_lost_is_said_to_be_lost(tmp_path: Path, at_event: str, meta: Any) -> None:
    service = broken(at_event)
    with loopback(service) as at:
        connect(tmp_path, at.port)
        with proxied(tmp_path) as client:
            client.open()
            service.known.add("")
            client.call("interact", id="long", meta=meta)
            assert client.receive()["params"]["data"] == "soon"
            error = client.receive()["error"]
            assert "not known" in error["message"]
            assert "get_operation" in error["message"]
            assert "data" not in error, "to repeat it is not the next step"
        assert at.said().count("GET") <= 1, "that of the notices"


@pytest.mark.rule("FR-F3")
@pytest.mark.parametrize("modern", [False, True], ids=["older", "stateless"])
def test_a_cancelled_call_is_closed_at_the_service_too(tmp_path: Path, modern: bool) -> None:
    """The older revisions want the notification, as a closed connection says nothing there; the other has none."""

    async def call(exchange: Exchange) -> None:
        await exchange.events()
        await exchange.event(notice("begun"))
        await exchange.until_gone()

    sessions = Sessions(call=call)

    async def either(exchange: Exchange) -> None:
        await (call if "mcp-method" in exchange.headers else sessions)(exchange)

    with loopback(either) as at:
        connect(tmp_path, at.port)
        with proxied(tmp_path) as client:
            client.open()
            client.call("interact", id=3, meta=modern_meta() if modern else None)
            assert client.receive()["params"]["data"] == "begun"
            client.send("notifications/cancelled", {"requestId": 3, "reason": "enough"})
            at.until(lambda: any(exchange.gone for exchange in at.seen))
            if not modern:
                at.until(lambda: "notifications/cancelled" in at.said())
        assert client.lines.empty()
        assert at.said().count("notifications/cancelled") == (0 if modern else 1)


@pytest.mark.parametrize(
    ("status", "body", "content_type"),
    [
        (200, b"<html>", "text/html"),
        (200, b"", "application/json"),
        (202, b"", "application/json"),
        (500, b"Internal Server Error", "text/plain"),
        (200, b'{"jsonrpc": "2.0", "id": "another", "result": {}}', "application/json"),
        (200, b"[]", "application/json"),
        (302, b"", "application/json"),
    ],
)
def test_what_is_no_answer_reaches_no_client(tmp_path: Path, status: int, body: bytes, content_type: str) -> None:
    async def odd(exchange: Exchange) -> None:
        await exchange.reply(status, body, content_type, location=f"http://127.0.0.1:{at.port}/elsewhere")

    with loopback(odd) as at:
        connect(tmp_path, at.port)
        with proxied(tmp_path) as client:
            assert f"HTTP {status}" in client.ask("ping")["error"]["message"]
        assert [exchange.path for exchange in at.seen] == ["/mcp"]


def test_a_message_of_many_lines_becomes_one_and_keeps_its_numbers(tmp_path: Path) -> None:
    async def pretty(exchange: Exchange) -> None:
        body = '{\r\n "jsonrpc": "2.0",\n "id": 1,\n "result": {"n": 1.10, "big": 12345678901234567890, "s": "\u2028"}}'
        await exchange.reply(200, body.encode())

    with loopback(pretty) as at:
        connect(tmp_path, at.port)
        with proxied(tmp_path) as client:
            client.send("ping", id=1)
            line = client.lines.get(timeout=10)
            assert b'"n": 1.10, "big": 12345678901234567890' in line
            assert json.loads(line)["result"]["s"] == "\u2028"


@pytest.mark.rule("FR-F17")
def test_a_service_that_says_nothing_is_asked_once_and_then_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upstream, "ANSWER_SECONDS", 0.2)

    async def silent(exchange: Exchange) -> None:
        await exchange.until_gone()

    with loopback(silent) as at:
        connect(tmp_path, at.port)
        with proxied(tmp_path) as client:
            for method in ("initialize", "tools/list"):
                assert "not known" in client.ask(method, {})["error"]["message"]
        assert at.said() == ["initialize", "tools/list"]


def test_the_stream_of_notices_is_opened_again_when_the_service_is_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversation, "_LISTEN_SECONDS", 0.02)

    def service(name: str) -> Sessions:
        async def listen(exchange: Exchange) -> None:
            await exchange.events()
            await exchange.event(notice(name), retry=10)
            await exchange.until_gone()

        return Sessions(get=listen)

    before, after = service("before"), service("after")
    after.known = before.known
    with proxied(tmp_path) as client:
        with loopback(before) as first:
            connect(tmp_path, first.port)
            client.open()
            assert client.receive()["params"]["data"] == "before"
        with loopback(after) as second:
            connect(tmp_path, second.port)
            # The first may have been asked again while it was stopping.
            while (said := client.receive()["params"]["data"]) != "after":
                assert said == "before"
            client.leave()
            assert second.said()[-1] == "DELETE"
