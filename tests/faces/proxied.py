"""The stdio proxy between two pipes, and a loopback service that says exactly what a test has it say."""

from __future__ import annotations

import asyncio
import json
import os
import queue
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import uvicorn

from apps.mcp.proxy import serve
from apps.runs.embedded.service import listen

TOKEN = "loom_agent_sentinel-that-must-not-be-seen"
PATIENCE = 10


def connect(folder: Path, port: int, *, entries: dict[str, dict[str, str]] | None = None, pid: int = 0) -> None:
    """Write the connection file of a service that runs at ``port``."""
    both = {"agent_ide": {"path": "/mcp", "token": TOKEN}, "codex": {"path": "/mcp/codex", "token": TOKEN}}
    body = {
        "url": f"http://127.0.0.1:{port}",
        "pid": pid or os.getpid(),
        "entries": both if entries is None else entries,
    }
    fresh = folder / "connection.fresh"
    fresh.write_text(json.dumps(body))
    fresh.replace(folder / "connection.json")


class Proxied:
    """A client at the proxy's pipes."""

    def __init__(self, folder: Path, entry: str) -> None:
        proxy_in, self._to_proxy = os.pipe()
        self._from_proxy, proxy_out = os.pipe()
        self.lines: queue.Queue[bytes] = queue.Queue()
        self._proxy = threading.Thread(target=self._run, args=(folder, entry, proxy_in, proxy_out), daemon=True)
        self._proxy.start()
        threading.Thread(target=self._read, daemon=True).start()

    @staticmethod
    def _run(folder: Path, entry: str, proxy_in: int, proxy_out: int) -> None:
        with open(proxy_in, "rb") as stdin, open(proxy_out, "wb") as stdout:
            anyio.run(serve, folder, entry, stdin, stdout)

    def _read(self) -> None:
        with open(self._from_proxy, "rb") as file:
            for line in file:
                self.lines.put(line)

    def write(self, data: bytes) -> None:
        while data:
            data = data[os.write(self._to_proxy, data) :]

    def send(self, method: str | None = None, params: Any = None, *, id: Any = None, **members: Any) -> None:
        message: dict[str, Any] = {"jsonrpc": "2.0", **members}
        message |= {
            key: value for key, value in (("id", id), ("method", method), ("params", params)) if value is not None
        }
        self.write(json.dumps(message, ensure_ascii=False).encode() + b"\n")

    def receive(self) -> Any:
        """The next message."""
        line = self.lines.get(timeout=PATIENCE)
        assert line.endswith(b"\n")
        return json.loads(line)

    def ask(self, method: str, params: Any = None, *, id: Any = 1) -> Any:
        self.send(method, params, id=id)
        answer = self.receive()
        assert answer["id"] == id
        return answer

    def open(self, version: str = "2025-11-25") -> Any:
        """The handshake; the result of ``initialize``."""
        params = {
            "protocolVersion": version,
            "capabilities": {"elicitation": {}},
            "clientInfo": {"name": "t", "version": "1"},
        }
        answer = self.ask("initialize", params, id="open")
        self.send("notifications/initialized")
        return answer["result"]

    def call(self, tool: str, arguments: Any = None, *, id: Any = 1, meta: Any = None) -> None:
        params = {"name": tool, "arguments": arguments or {}, **({"_meta": meta} if meta else {})}
        self.send("tools/call", params, id=id)

    def leave(self) -> float:
        """Close the proxy's standard input; seconds until it had ended."""
        began = time.monotonic()
        if self._to_proxy >= 0:
            os.close(self._to_proxy)
            self._to_proxy = -1
        self._proxy.join(PATIENCE)
        assert not self._proxy.is_alive()
        return time.monotonic() - began


@contextmanager
def proxied(folder: Path, entry: str = "agent_ide") -> Iterator[Proxied]:
    made = Proxied(folder, entry)
    try:
        yield made
    finally:
        made.leave()


@dataclass
class Exchange:
    """One request as the loopback service got it, and the ways to answer it."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    _receive: Any = field(repr=False)
    _send: Any = field(repr=False)
    gone: bool = False

    @property
    def message(self) -> Any:
        return json.loads(self.body) if self.body else {}

    @property
    def says(self) -> str:
        """The method of the message, ``answer`` for a response, or the HTTP method."""
        return str(self.message.get("method") or ("answer" if self.body else self.method))

    async def reply(
        self, status: int, body: bytes = b"", content_type: str = "application/json", **headers: str
    ) -> None:
        pairs = {"content-type": content_type, **{name.replace("_", "-"): value for name, value in headers.items()}}
        raw = [(name.encode(), value.encode()) for name, value in pairs.items()]
        await self._send({"type": "http.response.start", "status": status, "headers": raw})
        await self._send({"type": "http.response.body", "body": body})

    async def result(self, result: Any, **headers: str) -> None:
        body = {"jsonrpc": "2.0", "id": self.message["id"], "result": result}
        await self.reply(200, json.dumps(body).encode(), **headers)

    async def events(self) -> None:
        """Begin an event stream."""
        raw = [(b"content-type", b"text/event-stream")]
        await self._send({"type": "http.response.start", "status": 200, "headers": raw})
        await self.write(b": here\n\n")

    async def write(self, data: bytes) -> None:
        await self._send({"type": "http.response.body", "body": data, "more_body": True})

    async def event(self, message: Any, *, id: str = "", retry: int | None = None) -> None:
        head = (f"id: {id}\n" if id else "") + (f"retry: {retry}\n" if retry is not None else "")
        data = json.dumps(message, ensure_ascii=False) if message is not None else ""
        await self.write(f"{head}data: {data}\n\n".encode())

    async def end(self) -> None:
        await self._send({"type": "http.response.body", "body": b""})

    async def until_gone(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self.gone = True


Answer = Callable[[Exchange], Awaitable[None]]


class Loopback:
    """``answer`` answers what no test minds; all requests are kept in ``seen``."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.seen: list[Exchange] = []
        self._changed = threading.Condition()
        self._socket = listen("127.0.0.1", 0).socket
        self.port = int(self._socket.getsockname()[1])
        config = uvicorn.Config(self._app, interface="asgi3", lifespan="off", log_level="warning", access_log=False)
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.run(self._server.serve(sockets=[self._socket]))

    async def _app(self, scope: Any, receive: Any, send: Any) -> None:
        body, more = b"", True
        while more:
            event = await receive()
            body, more = body + event.get("body", b""), event.get("more_body", False)
        self._loop = asyncio.get_running_loop()
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        exchange = Exchange(scope["method"], scope["path"], headers, body, receive, send)
        with self._changed:
            self.seen.append(exchange)
            self._changed.notify_all()
        await self.answer(exchange)
        with self._changed:
            self._changed.notify_all()

    def call(self, what: Callable[[], object]) -> None:
        """Do something in the service's event loop."""
        self._loop.call_soon_threadsafe(what)

    def said(self) -> list[str]:
        return [exchange.says for exchange in self.seen]

    def until(self, condition: Callable[[], bool]) -> None:
        """Wait until something that a request or its end changes is so."""
        with self._changed:
            assert self._changed.wait_for(condition, PATIENCE), self.said()

    def stop(self) -> None:
        self._server.should_exit = True
        self._server.force_exit = True
        deadline = time.monotonic() + PATIENCE
        while self._thread.is_alive():
            assert time.monotonic() < deadline, "the service does not end"
            if self.seen and not self._loop.is_closed():
                # From Python 3.12 on, a server that closes waits for whoever is connected, and some connect again.
                with suppress(RuntimeError):  # it closed just now
                    self.call(self._hang_up)
            self._thread.join(0.05)

    def _hang_up(self) -> None:
        for connection in list(self._server.server_state.connections):
            connection.transport.close()  # type: ignore[union-attr]


@contextmanager
def loopback(answer: Answer) -> Iterator[Loopback]:
    made = Loopback(answer)
    try:
        yield made
    finally:
        made.stop()
