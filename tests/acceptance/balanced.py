"""Several web processes behind one port: Debian's HAProxy with the configuration of the deployment guide."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import shutil
import socket
import subprocess
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.scaled import ROOT, Client, Process, eventually, free_port

MODERN, LEGACY = "2026-07-28", "2025-11-25"
FORMS: dict[str, Any] = {"elicitation": {"form": {}}}
_GUIDE = ROOT / "docs" / "how-to" / "deploy.md"
#: Says which process answered; the guide's configuration has no use for it.
_SERVED_BY = "X-Served-By"


def needs_haproxy() -> str:
    """The program; without it a failure where everything must be covered, else a skip."""
    program = shutil.which("haproxy", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if program is not None:
        return program
    reason = "needs the program haproxy (apt-get install haproxy)"
    if os.environ.get("LOOMSVC_REQUIRE_SERVICES"):
        pytest.fail(reason)
    pytest.skip(reason)


def configuration(port: int, webs: Sequence[Client]) -> str:
    """The guide's, at loopback addresses."""
    found = re.search(r"```haproxy\n(.*?)```", _GUIDE.read_text(), re.DOTALL)
    assert found is not None
    text = found[1].replace("looms.example.org\n", "127.0.0.1\n")
    text, binds = re.subn(r"bind :443 .*", f"bind 127.0.0.1:{port}", text)
    text, servers = re.subn(r"^ +server .*\n", "", text, flags=re.MULTILINE)
    assert (binds, servers) == (1, 3)
    text += f"    http-response set-header {_SERVED_BY} %s\n"
    return text + "".join(f"    server {web.port} 127.0.0.1:{web.port}\n" for web in webs)


@contextlib.contextmanager
def balanced(folder: Path, webs: Sequence[Client]) -> Iterator[Balanced]:
    """HAProxy in front of ``webs``, as long as this lasts."""
    program, port = needs_haproxy(), free_port()
    config, log = folder / f"haproxy-{port}.cfg", folder / f"haproxy-{port}.log"
    config.write_text(configuration(port, webs))
    with log.open("wb") as out:
        popen = subprocess.Popen(
            [program, "-db", "-f", str(config)], stdin=subprocess.DEVNULL, stdout=out, stderr=out, cwd=folder
        )
    process = Process("haproxy", popen, log)

    def listens() -> bool:
        assert process.alive, process.text()
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
        return False

    try:
        eventually(listens, within=10, what="HAProxy listens")
        yield Balanced(port, webs[0].tokens, webs)
    finally:
        process.kill()


@dataclass
class Answer:
    """A whole response, and the port of the web process that gave it."""

    status: int
    served_by: int
    session: str | None
    body: Any


class Stream:
    """A response that is read while it is being written."""

    def __init__(self, connection: http.client.HTTPConnection, response: http.client.HTTPResponse) -> None:
        self.connection = connection
        self.response = response
        self.served_by = int(response.headers[_SERVED_BY])

    def message(self) -> Any:
        """The next message; ``None`` when the stream has ended, or broke off."""
        data = ""
        while line := self._line():
            if line.startswith("data: "):
                data = line.removeprefix("data: ")
            elif line == "\r\n" and data:
                return json.loads(data)
        return None

    def _line(self) -> str:
        try:
            return self.response.readline().decode()
        except (OSError, http.client.HTTPException):
            return ""

    def result(self) -> Any:
        """The structured result of the call, whatever comes before it."""
        while (message := self.message()) is not None:
            if "result" in message:
                return message["result"]["structuredContent"]
        raise AssertionError("the stream ended without a result")

    def close(self) -> None:
        self.connection.close()


@dataclass
class Balanced(Client):
    """A client at the one port; each of its requests may be answered by another process."""

    webs: Sequence[Client] = ()
    #: As the program of a person's agent has it.
    source: str = "agent_ide"
    path: str = "/mcp"
    token: str | None = None

    def post(
        self, message: Any, *, method: str = "POST", **headers: str
    ) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        own = {
            "Authorization": f"Bearer {self.token or self.tokens[self.source]}",
            "Accept": "application/json, text/event-stream",
            "Content-Type": "application/json",
        }
        connection.request(method, self.path, json.dumps(message) if message else None, {**own, **headers})
        return connection, connection.getresponse()

    def send(self, message: Any, *, method: str = "POST", **headers: str) -> Answer:
        connection, response = self.post(message, method=method, **headers)
        with contextlib.closing(connection):
            raw = response.read()
            served_by = int(response.headers[_SERVED_BY] or 0)
            return Answer(
                response.status, served_by, response.headers["mcp-session-id"], json.loads(raw) if raw else None
            )

    def modern(self, name: str, arguments: Any, **more: Any) -> Answer:
        """A Tool call of the stateless revision."""
        meta = {
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientCapabilities": FORMS,
        }
        params = {"name": name, "arguments": arguments, **more, "_meta": meta}
        headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": "tools/call", "Mcp-Name": name}
        return self.send({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}, **headers)

    def open_session(self) -> Session:
        params = {"protocolVersion": LEGACY, "capabilities": FORMS, "clientInfo": {"name": "t", "version": "1"}}
        answer = self.send({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params})
        assert answer.status == 200, answer
        assert answer.session is not None
        return Session(self, answer.session, answer.served_by)

    def next_is(self, web: Client) -> None:
        """Go round until the next request is that process's."""
        ports = [one.port for one in self.webs]
        before = ports[ports.index(web.port) - 1]
        eventually(lambda: self.modern("status", {}).served_by == before, within=20, what="its turn")


@dataclass
class Session:
    """An open session of the ``initialize`` era."""

    at: Balanced
    id: str
    opened_by: int
    streams: list[Stream] = field(default_factory=list)

    def send(self, message: Any, *, method: str = "POST") -> Answer:
        headers = {"Mcp-Session-Id": self.id, "MCP-Protocol-Version": LEGACY}
        return self.at.send(message, method=method, **headers)

    def request(self, method: str, **params: Any) -> Answer:
        return self.send({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})

    def tool(self, name: str, arguments: Any) -> tuple[int, Any]:
        """The port of the process that answered, and the structured result."""
        answer = self.request("tools/call", name=name, arguments=arguments)
        assert answer.status == 200, answer
        return answer.served_by, answer.body["result"]["structuredContent"]

    def ask(self, arguments: Any) -> Stream:
        """``interact`` that is answered on a stream."""
        params = {"name": "interact", "arguments": arguments}
        headers = {"Mcp-Session-Id": self.id, "MCP-Protocol-Version": LEGACY}
        message = {"jsonrpc": "2.0", "id": str(uuid.uuid4()), "method": "tools/call", "params": params}
        stream = Stream(*self.at.post(message, **headers))
        self.streams.append(stream)
        return stream

    def answer(self, form: Any, content: Any) -> Answer:
        """What a person filled in."""
        return self.send({"jsonrpc": "2.0", "id": form["id"], "result": {"action": "accept", "content": content}})

    def close(self) -> None:
        for stream in self.streams:
            stream.close()
