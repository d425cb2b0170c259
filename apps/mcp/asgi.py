"""The MCP face as ASGI applications, one per Entry, beside Django's own and past its middleware."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from django.conf import settings
from mcp_types.jsonrpc import INVALID_REQUEST

from apps.access.domain.entries import MCP_ENTRIES
from apps.core import clock, conf, threads
from apps.core.caller import Source
from apps.core.endpoints import Endpoint, tools_for
from apps.core.exchange import Disconnected, Head, Receive, Reply, Scope, Send, read_body
from apps.mcp import door
from apps.mcp.answering import OVERLOADED, answer, refuse, stopped
from apps.mcp.elicitation import Given, Interaction
from apps.mcp.handshake import Asked
from apps.mcp.interacting import INTERACTIONS
from apps.mcp.jsonrpc import RequestId, RpcError
from apps.mcp.streams import Streams
from apps.mcp.tools import EntryServer

#: What an envelope may take beside the largest value.
_ENVELOPE_BYTES = 64 * 1024
_CLOSE = (("connection", "close"),)
#: Something was said that a waiting call may wait for.
_TAKEN = 202
#: A letter of a Tool's name written as an escape, which no JSON writer does: it might hide any name.
_HIDDEN_LETTER = re.compile(rb"\\u00[4-7][0-9a-fA-F]")


class EntryApplication:
    """One Entry: looks at where a request comes from, then has a thread answer it."""

    def __init__(self, server: EntryServer) -> None:
        self.server = server
        self._long_running = [json.dumps(name).encode() for name in server.long_running]
        self.streams = Streams()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        head = Head.of(scope)
        try:
            body = await self._read(head, receive)
        except Disconnected:
            return
        except RpcError as error:
            await refuse(error).send(send)
            return
        reply = await self._answer(head, body)
        if isinstance(reply, Asked):
            again = partial(self._again, head, body, reply.call)
            refusal = self.streams.refuse(reply)
            if refusal is None:
                await self.streams.respond(reply, again, scope, receive, send)
                return
            reply = refusal
        if reply.status == _TAKEN:
            self.streams.watch.ring()
        await reply.send(send)

    async def _read(self, head: Head, receive: Receive) -> bytes | None:
        door.check_where_from(head, settings.ALLOWED_HOSTS)
        door.check_query(head)
        try:
            return await read_body(head, receive, limit=conf.settings().max_value_bytes + _ENVELOPE_BYTES)
        except TimeoutError:
            raise RpcError(INVALID_REQUEST, "The body did not arrive in time.", status=408, headers=_CLOSE) from None

    async def _answer(self, head: Head, body: bytes | None) -> Reply | Asked:
        try:
            return await threads.run(
                partial(answer, self.server, head, body, clock.now()), long=self._may_take_long(body)
            )
        except threads.Overloaded:
            return refuse(OVERLOADED)
        except asyncio.CancelledError:
            return refuse(stopped())

    async def _again(self, head: Head, body: bytes | None, call: RequestId, given: Given | None) -> Reply | Asked:
        job = partial(answer, self.server, head, body, clock.now(), given=given, request_id=call)
        return await threads.run(job)

    def _may_take_long(self, body: bytes | None) -> bool:
        """Whether the body names a Tool that runs an author's code; one that only seems to waits elsewhere, no more."""
        if body is None or not self._long_running:
            return False
        return any(name in body for name in self._long_running) or _HIDDEN_LETTER.search(body) is not None


def entry_applications(
    tools: Callable[[Source], Iterable[Endpoint[Any, Any]]] = tools_for,
    interactions: Mapping[str, Interaction] = INTERACTIONS,
) -> dict[str, EntryApplication]:
    """Exact path → application, each Entry with and without a trailing slash.

    ``tools`` says which Endpoints are Tools at an Entry of a source; they must be registered by now.
    ``interactions`` has those that may ask the client's human.
    """
    applications: dict[str, EntryApplication] = {}
    for entry in MCP_ENTRIES:
        application = EntryApplication(EntryServer(entry, tools(entry.source), interactions))
        applications[entry.path] = applications[f"{entry.path}/"] = application
    return applications
