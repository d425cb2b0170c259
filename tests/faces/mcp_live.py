"""The MCP face on a real uvicorn at a loopback port, with Endpoints made for the tests."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
import uvicorn
from django.db import OperationalError, connections
from one_segment import OneSegment

from apps.access.services.credentials import create_credential
from apps.access.services.projects import ensure_default_project
from apps.access.services.throttling import failure_counts
from apps.core import clock
from apps.core.caller import Caller, Source
from apps.core.contracts import Contract, Empty, Json
from apps.core.endpoints import Endpoint, Kind
from apps.core.errors import ErrorCode, LoomError
from apps.mcp.asgi import entry_applications
from apps.mcp.elicitation import Action, Ask, Given, Interaction
from apps.mcp.mirrored import encode_header
from apps.runs.embedded.service import listen

MODERN = "2026-07-28"
LEGACY = ("2025-11-25", "2025-06-18", "2025-03-26")
SECRET_SQL = "SELECT secret_digest FROM /srv/loomsvc/ledger"


class Echo(Contract):
    value: Json
    times: int = 1


class Echoed(Contract):
    value: Json
    principal: str
    entry: str
    profile: str | None = None


class Refuse(Contract):
    code: str


class Receipt(Contract):
    operation_id: str


class Refusal(Contract):
    receipt: Receipt
    run: Receipt | None = None


class Question(Contract):
    text: str


class Named(Contract):
    name: str | None = None
    presented: str | None = None


@dataclass
class Effects:
    """What the test Endpoints did, to be counted."""

    begun: threading.Event = field(default_factory=threading.Event)
    go_on: threading.Event = field(default_factory=threading.Event)
    done: list[str] = field(default_factory=list)
    #: Set: what the form of `ask` is for was settled elsewhere.
    settled: LoomError | None = None

    def clear(self) -> None:
        self.done.clear()
        self.begun.clear()
        self.go_on.clear()
        self.settled = None


effects = Effects()


def _echo(caller: Caller, given: Echo) -> Echoed:
    effects.done.append("echo")
    return Echoed(value=given.value, principal=caller.principal, entry=caller.entry, profile=caller.profile)


def _refuse(caller: Caller, given: Refuse) -> Refusal:
    receipt = {"operationId": "0198c1f2-7c7e-7000-8000-000000000000"}
    raise LoomError(ErrorCode(given.code), f"Refused as {given.code}.", attachments={"receipt": receipt})


def _crash(caller: Caller, given: Empty) -> Empty:
    raise RuntimeError(SECRET_SQL)


def _lose_ledger(caller: Caller, given: Empty) -> Empty:
    raise OperationalError(SECRET_SQL)


def _wait(caller: Caller, given: Empty) -> Empty:
    effects.begun.set()
    effects.go_on.wait(10)
    effects.done.append("wait")
    return Empty()


def _ask(caller: Caller, given: Question) -> Named:
    return Named(presented="unsupported")


def _ask_natively(caller: Caller, arguments: Any, given: Given | None) -> Named | Ask:
    """Asks for a name of at least two letters until there is one, or the form is put away."""
    question = Question.parse(arguments)
    if effects.settled is not None:
        raise effects.settled
    names = {"name": {"type": "string", "title": "Name"}, "kind": {"type": "string", "oneOf": KINDS}}
    if given is None or given.key != "name":
        return Ask("name", question.text, names, ("name",))
    if given.action is not Action.ACCEPT:
        presented = {Action.DECLINE: "declined", Action.CANCEL: "cancelled"}.get(given.action, "unsupported")
        return Named(presented=presented)
    name = given.content.get("name")
    if not isinstance(name, str) or len(name) < 2:
        return Ask("name", f"{question.text} Two letters at least.", names, ("name",))
    effects.done.append(f"named {name}")
    return Named(name=name)


KINDS = [{"const": "p", "title": "A person"}, {"const": "o", "title": "Other"}]


def _endpoint(name: str, takes: type[Contract], gives: type[Contract], handler: Any, **options: Any) -> Any:
    kind = options.pop("kind", Kind.READ)
    return Endpoint(name, name.title(), f"Does {name}.", takes, gives, handler, kind, **options)


ENDPOINTS = [
    _endpoint("echo", Echo, Echoed, _echo),
    _endpoint("refuse", Refuse, Refusal, _refuse, kind=Kind.OPERATION, destructive=True),
    _endpoint("crash", Empty, Empty, _crash),
    _endpoint("lose_ledger", Empty, Empty, _lose_ledger),
    _endpoint("wait", Empty, Empty, _wait),
    _endpoint("claim", Empty, Empty, _wait, sources=frozenset({Source.AGENT_IDE})),
    _endpoint("ask", Question, Named, _ask),
]
INTERACTIONS: dict[str, Interaction] = {"ask": _ask_natively}


def tools(source: Source) -> list[Endpoint[Any, Any]]:
    return [endpoint for endpoint in ENDPOINTS if endpoint.sources is None or source in endpoint.sources]


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error_code(self) -> int:
        return int(self.json["error"]["code"])


@dataclass
class Live:
    """A client that says exactly what it is told to."""

    port: int
    tokens: dict[str, str] = field(default_factory=dict)

    def headers(self, source: str) -> dict[str, str]:
        """What every message carries."""
        return {
            "Host": f"127.0.0.1:{self.port}",
            "Authorization": f"Bearer {self.tokens.get(source, '')}",
            "Accept": "application/json, text/event-stream",
            "Content-Type": "application/json",
        }

    def send(
        self,
        body: bytes | Any,
        *,
        path: str = "/mcp",
        source: str = "agent_ide",
        method: str = "POST",
        headers: dict[str, str | None] | None = None,
        more: tuple[tuple[str, str], ...] = (),
    ) -> Answer:
        """One exchange; ``None`` as a header's value leaves it out, ``more`` adds headers once again."""
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        sent: dict[str, str | None] = {
            **self.headers(source),
            "Content-Length": str(len(raw)),
            **(headers or {}),
        }
        connection = OneSegment("127.0.0.1", self.port, timeout=20)
        try:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for name, value in [*sent.items(), *more]:
                if value is not None:
                    connection.putheader(name, value)
            connection.endheaders(raw)
            connection.flush()
            response = connection.getresponse()
            found = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, found, response.read())
        finally:
            connection.close()

    def legacy(self, method: str, params: Any = None, *, version: str | None = "2025-11-25", **options: Any) -> Answer:
        message = {"jsonrpc": "2.0", "id": 1, "method": method}
        if params is not None:
            message["params"] = params
        headers = {"MCP-Protocol-Version": version, **options.pop("headers", {})}
        return self.send(message, headers=headers, **options)

    def modern(self, method: str, params: Any = None, *, meta: Any = ..., **options: Any) -> Answer:
        envelope = modern_meta() if meta is ... else meta
        whole = {**(params or {}), **({} if envelope is None else {"_meta": envelope})}
        headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": method, **options.pop("headers", {})}
        named_by = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}.get(method, "")
        if isinstance(whole.get(named_by), str):
            headers.setdefault("Mcp-Name", encode_header(whole[named_by]))
        return self.send({"jsonrpc": "2.0", "id": 1, "method": method, "params": whole}, headers=headers, **options)


def modern_meta(version: Any = MODERN) -> dict[str, Any]:
    return {
        "io.modelcontextprotocol/protocolVersion": version,
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    }


def _site() -> Any:
    applications = entry_applications(tools, INTERACTIONS)

    async def site(scope: Any, receive: Any, send: Any) -> None:
        await applications[scope["path"]](scope, receive, send)

    return site


@contextmanager
def serving() -> Iterator[int]:
    """The face on a uvicorn of its own, as another web process has it; its port."""
    # Connections that end with their job: the test database can then be dropped at the end.
    connections.settings["default"]["CONN_MAX_AGE"] = 0
    listener = listen("127.0.0.1", 0).socket
    # A reader that stops reading is noticed, however much the system would have kept for it.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    server = uvicorn.Server(uvicorn.Config(_site(), lifespan="off", log_level="warning", access_log=False))
    thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listener])), daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive(), "the server did not start"
        time.sleep(0.01)
    yield listener.getsockname()[1]
    server.should_exit = True
    thread.join(10)


@pytest.fixture(scope="session")
def _server() -> Iterator[int]:
    with serving() as port:
        yield port


@pytest.fixture(scope="session")
def _other_server() -> Iterator[int]:
    with serving() as port:
        yield port


@pytest.fixture
def live(_server: int, transactional_db: None) -> Iterator[Live]:
    """The running face with one credential of each source in the Project ``default``."""
    failure_counts.clear()
    effects.clear()
    project = ensure_default_project(now=clock.now())
    made = {
        source.value: create_credential(project=project, source=source, label="test", now=clock.now())[1]
        for source in (Source.AGENT_IDE, Source.CLI, Source.STUDIO)
    }
    yield Live(_server, made)
    effects.go_on.set()
    failure_counts.clear()


@pytest.fixture
def other(live: Live, _other_server: int) -> Live:
    """The same face as another web process serves it."""
    return Live(_other_server, live.tokens)
