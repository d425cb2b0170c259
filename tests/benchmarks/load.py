"""Keep-alive HTTP clients that ask the same again and again, for as little processor time as Python can."""

from __future__ import annotations

import json
import selectors
import socket
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Answer:
    """One HTTP answer; ``body`` as it came, chunks joined."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Connection:
    """One kept connection to a server on the loopback interface."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=30)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.received = b""

    def post(self, request: bytes) -> Answer:
        """Send a request and wait for the whole answer."""
        self.socket.sendall(request)
        while (answer := self.take()) is None:
            pass
        return answer

    def take(self) -> Answer | None:
        """Read what has come; the answer, once it is whole."""
        part = self.socket.recv(1 << 16)
        if not part:
            raise ConnectionError(f"the server closed the connection after {self.received!r}")
        self.received += part
        head, gap, rest = self.received.partition(b"\r\n\r\n")
        if not gap:
            return None
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        if headers.get("transfer-encoding") == "chunked":
            if not rest.endswith(b"0\r\n\r\n"):
                return None
            body = _joined(rest)
        else:
            body = rest
            if len(rest) < int(headers.get("content-length", 0)):
                return None
        self.received = b""
        return Answer(int(first.split()[1]), headers, body)

    def close(self) -> None:
        self.socket.close()


def _joined(chunked: bytes) -> bytes:
    body = b""
    while chunked:
        size, _, chunked = chunked.partition(b"\r\n")
        body += chunked[: int(size, 16)]
        chunked = chunked[int(size, 16) + 2 :]
    return body


def request_of(port: int, path: str, body: Any, headers: Mapping[str, str]) -> bytes:
    """A POST of JSON as it goes over the wire."""
    text = json.dumps(body).encode()
    lines = [
        f"POST {path} HTTP/1.1",
        f"Host: 127.0.0.1:{port}",
        f"Content-Length: {len(text)}",
        "Content-Type: application/json",
        "Accept: application/json, text/event-stream",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + text


def answers_per_second(clients: Mapping[Connection, bytes], seconds: float) -> float:
    """How many answers a second come when each client asks again as soon as it has been answered.

    Any status but 200 ends it with an error: refusals are quick, and no answers.
    """
    number = 0
    with selectors.DefaultSelector() as selector:
        for connection, request in clients.items():
            selector.register(connection.socket, selectors.EVENT_READ, (connection, request))
            connection.socket.sendall(request)
        began = time.perf_counter()
        under_way = len(clients)
        while under_way:
            for key, _ in selector.select(30):
                connection, request = key.data
                answer = connection.take()
                if answer is None:
                    continue
                if answer.status != 200:
                    raise RuntimeError(f"{answer.status}: {answer.body[:500]!r}")
                took = time.perf_counter() - began
                if took < seconds:
                    number += 1
                    connection.socket.sendall(request)
                else:
                    under_way -= 1
    return number / seconds


def answers_to(requests: Iterable[bytes], connections: Iterable[Connection]) -> list[Answer]:
    """The answers to all ``requests``, in any order; each connection takes the next when it has been answered."""
    waiting = iter(requests)
    answers: list[Answer] = []
    with selectors.DefaultSelector() as selector:
        for connection, request in zip(connections, waiting, strict=False):
            selector.register(connection.socket, selectors.EVENT_READ, connection)
            connection.socket.sendall(request)
        while selector.get_map():
            for key, _ in selector.select(30):
                answer = key.data.take()
                if answer is None:
                    continue
                answers.append(answer)
                request = next(waiting, b"")
                if request:
                    key.data.socket.sendall(request)
                else:
                    selector.unregister(key.fileobj)
    return answers
