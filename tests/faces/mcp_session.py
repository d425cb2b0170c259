"""A client of the ``initialize`` era that says exactly what it is told to, and reads streams message by message."""

from __future__ import annotations

import http.client
import json
import socket
from dataclasses import dataclass, field
from typing import Any

from mcp_live import LEGACY, Answer, Live

FORMS: dict[str, Any] = {"elicitation": {"form": {}}}


class Stream:
    """A response that is read while it is being written."""

    def __init__(self, live: Live, message: Any, headers: dict[str, str], *, path: str, source: str) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", live.port, timeout=20)
        self.connection.request("POST", path, json.dumps(message), {**live.headers(source), **headers})
        self.response = self.connection.getresponse()
        self.comments: list[str] = []

    def message(self) -> Any:
        """The next message; ``None`` when the stream has ended."""
        data = []
        while line := self.response.readline().decode():
            line = line.rstrip("\r\n")
            if line.startswith(":"):
                self.comments.append(line)
            elif line.startswith("data:"):
                data.append(line.removeprefix("data:").removeprefix(" "))
            elif not line and data:
                return json.loads("\n".join(data))
        return None

    def close(self) -> None:
        self.response.close()
        self.connection.close()


class FrozenReader:
    """Sends a call and reads nothing of its answer."""

    def __init__(self, session: Session, name: str, arguments: Any) -> None:
        params = {"name": name, "arguments": arguments}
        body = json.dumps({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}).encode()
        headers = {**session.live.headers(session.source), **session.headers, "Content-Length": str(len(body))}
        lines = [f"POST {session.path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.socket.connect(("127.0.0.1", session.live.port))
        self.socket.sendall("\r\n".join(lines).encode() + body)

    def close(self) -> None:
        self.socket.close()


@dataclass
class Session:
    """An open session."""

    live: Live
    id: str
    version: str
    path: str = "/mcp"
    source: str = "agent_ide"
    streams: list[Stream] = field(default_factory=list)

    @property
    def headers(self) -> dict[str, str]:
        return {"Mcp-Session-Id": self.id, "MCP-Protocol-Version": self.version}

    def at(self, live: Live) -> Session:
        """The same session, spoken to at another web process."""
        return Session(live, self.id, self.version, self.path, self.source)

    def send(self, message: Any, **options: Any) -> Answer:
        headers = {**self.headers, **options.pop("headers", {})}
        return self.live.send(message, path=self.path, source=self.source, headers=headers, **options)

    def request(self, method: str, params: Any = None, **options: Any) -> Answer:
        return self.send({"jsonrpc": "2.0", "id": 1, "method": method, "params": params or {}}, **options)

    def notify(self, method: str, params: Any = None) -> Answer:
        return self.send({"jsonrpc": "2.0", "method": method, "params": params or {}})

    def answer(self, request: Any, action: str, content: Any = None) -> Answer:
        """What a person said to a form."""
        result = {"action": action, **({} if content is None else {"content": content})}
        return self.send({"jsonrpc": "2.0", "id": request["id"], "result": result})

    def call(self, name: str, arguments: Any, *, request_id: Any = 7, meta: Any = None) -> Stream:
        """A call that is answered on a stream."""
        params = {"name": name, "arguments": arguments, **({"_meta": meta} if meta else {})}
        message = {"jsonrpc": "2.0", "id": request_id, "method": "tools/call", "params": params}
        stream = Stream(self.live, message, self.headers, path=self.path, source=self.source)
        self.streams.append(stream)
        return stream

    def close(self) -> None:
        for stream in self.streams:
            stream.close()


def open_session(
    live: Live, version: str = LEGACY[0], capabilities: Any = FORMS, *, path: str = "/mcp", source: str = "agent_ide"
) -> Session:
    """``initialize``, and the session that comes of it."""
    params = {"protocolVersion": version, "capabilities": capabilities, "clientInfo": {"name": "t", "version": "1"}}
    answer = live.legacy("initialize", params, version=None, path=path, source=source)
    assert answer.status == 200, answer.body
    return Session(live, answer.headers["mcp-session-id"], version, path, source)
