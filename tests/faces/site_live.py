"""The whole web application, as ``loomsvc.asgi`` ships it, on a real uvicorn at a loopback port."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import pytest
import uvicorn
from django.db import connections
from one_segment import OneSegment

from apps.access.domain.entries import MCP_ENTRIES
from apps.access.services.credentials import create_credential
from apps.access.services.projects import create_project
from apps.core import clock
from apps.core.caller import Source
from apps.runs.embedded.service import listen

SOURCES = (Source.AGENT_IDE, Source.CLI, Source.STUDIO)
ENTRY_OF = {entry.path: entry.source.value for entry in MCP_ENTRIES}


@dataclass
class Reply:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Site:
    """A client of the running site with one credential of each source in the Project ``trials``."""

    port: int
    tokens: dict[str, str] = field(default_factory=dict)

    def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        token: str | None = "studio",
        headers: dict[str, str | None] | None = None,
        more: tuple[tuple[str, str], ...] = (),
    ) -> Reply:
        """One exchange.  ``token`` is a source, a credential, or ``None``; ``None`` as header leaves it out."""
        raw = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        sent: dict[str, str | None] = {"Host": f"127.0.0.1:{self.port}"}
        if token is not None:
            sent["Authorization"] = f"Bearer {self.tokens.get(token, token)}"
        if raw is not None:
            sent |= {"Content-Type": "application/json", "Content-Length": str(len(raw))}
        sent |= headers or {}
        with closing(OneSegment("127.0.0.1", self.port, timeout=20)) as connection:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for name, value in [*sent.items(), *more]:
                if value is not None:
                    connection.putheader(name, value)
            connection.endheaders(raw)
            connection.flush()
            response = connection.getresponse()
            return Reply(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())

    def raw(self, *parts: bytes, pause: float = 0.0) -> bytes:
        """Send these very bytes and read until the other side closes."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=20) as connection:
            try:
                for part in parts:
                    connection.sendall(part)
                    time.sleep(pause)
            except ConnectionError:
                pass
            found = b""
            try:
                while block := connection.recv(65536):
                    found += block
            except ConnectionError:
                pass
            return found

    def tool(self, name: str, arguments: Any, *, entry: str = "/internal/mcp", token: str | None = None) -> Any:
        """The Tool result of one ``tools/call``; ``arguments`` may be JSON text."""
        text = arguments if isinstance(arguments, bytes) else json.dumps(arguments).encode()
        body = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"%s","arguments":%s}}'
        found = self.mcp(body % (name.encode(), text), entry=entry, token=token)
        assert found.status == 200, found.body
        return found.json["result"]

    def mcp(self, body: Any, *, entry: str = "/internal/mcp", token: str | None = None) -> Reply:
        """One message of the ``initialize`` era."""
        headers: dict[str, str | None] = {
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": "2025-11-25",
        }
        return self.send("POST", entry, body, token=token or ENTRY_OF[entry], headers=headers)


@pytest.fixture(scope="session")
def _site_port() -> Iterator[int]:
    from loomsvc.asgi import application

    listener = listen("127.0.0.1", 0).socket
    # As ``loomsvc up`` has it.
    config = uvicorn.Config(
        application, lifespan="off", http="h11", log_config=None, access_log=False, proxy_headers=False
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listener])), daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive(), "the server did not start"
        time.sleep(0.01)
    yield listener.getsockname()[1]
    server.should_exit = True
    thread.join(10)


def credentials_in(project: Any) -> dict[str, str]:
    """One credential of each source."""
    return {
        source.value: create_credential(project=project, source=source, label="test", now=clock.now())[1]
        for source in SOURCES
    }


@pytest.fixture
def site(_site_port: int, service: Any, monkeypatch: pytest.MonkeyPatch) -> Site:
    """The running site, with an open instance and the test Looms; ``service`` works off what is due."""
    from apps.access.models import Project

    # Connections that end with their job: the test database can then be dropped at the end.
    monkeypatch.setitem(connections.settings["default"], "CONN_MAX_AGE", 0)
    return Site(_site_port, credentials_in(Project.objects.get(pk=service.caller.project_id)))


@pytest.fixture
def stranger(_site_port: int, site: Site) -> Site:
    """A client of the same site in another Project."""
    return Site(_site_port, credentials_in(create_project(name="elsewhere", now=clock.now())))


def identity(service: Any) -> dict[str, str]:
    """A fresh identity of an Operation."""
    return {"operationId": str(uuid.uuid4()), "serviceInstanceId": service.instance_id}
