"""One HTTP exchange as plain values: the head of a request, the reply, and the body within its bound."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any

Scope = MutableMapping[str, Any]
Event = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Event]]
Send = Callable[[Event], Awaitable[None]]

#: How long a client may take to send a whole request body, in seconds.
BODY_SECONDS = 30
#: How many times the limit is read of a body that is too long.
_DRAINED = 4


@dataclass(frozen=True, slots=True)
class Head:
    """What arrived before the body.

    Header names are lower-case.  A header sent twice is joined with a comma, as HTTP has it, so one
    that may stand only once then fits nothing and is refused where it is looked at.  ``address``
    serves for counting a client's failures, never for trusting it.
    """

    method: str
    query: bytes
    headers: Mapping[str, str]
    address: str

    @classmethod
    def of(cls, scope: Scope) -> Head:
        headers: dict[str, str] = {}
        for raw_name, raw_value in scope["headers"]:
            name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
        client = scope.get("client")
        address = countable_address(client[0] if client else None, forwarded="x-forwarded-for" in headers)
        return cls(scope["method"], scope.get("query_string", b""), headers, address)

    def get(self, name: str) -> str | None:
        return self.headers.get(name)


def countable_address(address: str | None, *, forwarded: bool) -> str:
    """The connection's address; one for all requests with ``X-Forwarded-For`` (K24).

    A server may have put that header's claim in place of the real address, and whoever can choose
    an address anew for each attempt is not limited at all.
    """
    return address if address and not forwarded else "forwarded"


@dataclass(frozen=True, slots=True)
class Reply:
    """A whole response.  ``body`` is JSON, or empty."""

    status: int
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()

    async def send(self, send: Send) -> None:
        """Write the response; nothing of it may be kept by a cache (K2)."""
        headers = [
            (b"content-length", str(len(self.body)).encode()),
            (b"cache-control", b"no-store"),
            (b"x-content-type-options", b"nosniff"),
            *((name.encode(), value.encode("latin-1")) for name, value in self.headers),
        ]
        if self.body:
            headers.append((b"content-type", b"application/json"))
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": self.body})


class Disconnected(Exception):
    """The client went away; nobody waits for an answer."""


async def read_body(head: Head, receive: Receive, *, limit: int) -> bytes | None:
    """The body of ``head``'s request, ``None`` when it is longer than ``limit`` bytes.

    Nothing past the limit is kept, whether a length was announced or the body comes in chunks; a
    little more is read, so that a client that is still sending finds the answer.
    Raises :class:`Disconnected`, and ``TimeoutError`` when the client takes longer than it may.
    """
    announced = head.get("content-length") or ""
    if announced.isdecimal() and int(announced) > limit:
        return None
    parts: list[bytes] = []
    size, more = 0, True
    async with asyncio.timeout(BODY_SECONDS):
        while more:
            event = await receive()
            if event["type"] == "http.disconnect":
                raise Disconnected
            part = event.get("body", b"")
            size += len(part)
            if size <= limit:
                parts.append(part)
            more = event.get("more_body", False) and size <= _DRAINED * limit
    return b"".join(parts) if size <= limit else None
