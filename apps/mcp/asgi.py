"""The MCP face as ASGI applications, one per Entry, beside Django's own and past its middleware."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
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
from apps.mcp.answering import answer, refuse, unavailable
from apps.mcp.jsonrpc import RpcError
from apps.mcp.tools import EntryServer

#: What an envelope may take beside the largest value.
_ENVELOPE_BYTES = 64 * 1024
_CLOSE = (("connection", "close"),)


class EntryApplication:
    """One Entry: looks at where a request comes from, then has a thread answer it."""

    def __init__(self, server: EntryServer) -> None:
        self.server = server
        self._long_running = [json.dumps(name).encode() for name in server.long_running]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        head = Head.of(scope)
        try:
            reply = await self._reply(head, receive)
        except Disconnected:
            return
        await reply.send(send)

    async def _reply(self, head: Head, receive: Receive) -> Reply:
        try:
            door.check_where_from(head, settings.ALLOWED_HOSTS)
            door.check_query(head)
        except RpcError as error:
            return refuse(error)
        try:
            body = await read_body(head, receive, limit=conf.settings().max_value_bytes + _ENVELOPE_BYTES)
        except TimeoutError:
            return refuse(RpcError(INVALID_REQUEST, "The body did not arrive in time.", status=408, headers=_CLOSE))
        try:
            return await threads.run(
                partial(answer, self.server, head, body, clock.now()), long=self._may_take_long(body)
            )
        except threads.Overloaded:
            return refuse(unavailable("The service has more requests than it can answer just now."))

    def _may_take_long(self, body: bytes | None) -> bool:
        """Whether the body names a Tool that runs an author's code; one that only seems to waits elsewhere, no more."""
        return body is not None and any(name in body for name in self._long_running)


def entry_applications(
    tools: Callable[[Source], Iterable[Endpoint[Any, Any]]] = tools_for,
) -> dict[str, EntryApplication]:
    """Exact path → application, each Entry with and without a trailing slash.

    ``tools`` says which Endpoints are Tools at an Entry of a source; they must be registered by now.
    """
    applications: dict[str, EntryApplication] = {}
    for entry in MCP_ENTRIES:
        application = EntryApplication(EntryServer(entry, tools(entry.source)))
        applications[entry.path] = applications[f"{entry.path}/"] = application
    return applications
