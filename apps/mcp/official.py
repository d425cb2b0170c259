"""The official MCP client, called from plain synchronous code."""

from __future__ import annotations

import signal
import threading
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import httpx
from anyio import ClosedResourceError
from anyio.from_thread import BlockingPortal, start_blocking_portal
from mcp import ClientSession, McpError
from mcp.client.streamable_http import streamable_http_client
from mcp.types import InitializeResult

from apps.core.errors import LoomError
from apps.mcp.client import AnswerLost


@dataclass(frozen=True)
class OfficialClient:
    """An open session; ``call`` is what :class:`apps.mcp.following.Caller` asks for."""

    opened: InitializeResult
    _session: ClientSession
    _portal: BlockingPortal

    def call(self, tool: str, arguments: Mapping[str, Any], /) -> dict[str, Any]:
        """The Tool's structured result; raises :class:`LoomError` for an error result, or :class:`AnswerLost`."""
        try:
            result = self._portal.call(self._session.call_tool, tool, dict(arguments))
        except (McpError, ClosedResourceError) as error:
            raise AnswerLost(f"The service gave no answer ({type(error).__name__}).") from None
        structured: dict[str, Any] = dict(result.structuredContent or {})
        if result.isError:
            raise LoomError.from_wire(structured["error"])
        return structured

    def tools(self) -> list[str]:
        """The names of the Tools that this Entry serves."""
        return [tool.name for tool in self._portal.call(self._session.list_tools).tools]


@contextmanager
def session(url: str, token: str) -> Iterator[OfficialClient]:
    """Open a session at an Entry's address, as any MCP client does."""
    with ExitStack() as stack:
        with _without_interrupts():
            portal = stack.enter_context(start_blocking_portal())
        context = portal.wrap_async_context_manager(_open(url, token))
        client, opened = context.__enter__()
        try:
            yield OfficialClient(opened, client, portal)
        finally:
            # What the block raised is not handed to the session, whose task groups would wrap it; and a
            # session that broke has said so in a call.
            with suppress(Exception):
                context.__exit__(None, None, None)


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Hold Ctrl-C back: a portal that is interrupted while it starts waits for its thread for ever."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread is interrupted
        return
    came: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if came:
        raise KeyboardInterrupt


@asynccontextmanager
async def _open(url: str, token: str) -> AsyncIterator[tuple[ClientSession, InitializeResult]]:
    headers = {"authorization": f"Bearer {token}"}
    async with (
        httpx.AsyncClient(headers=headers, trust_env=False, timeout=30) as http,
        streamable_http_client(url, http_client=http) as (read, write, _session_id),
        ClientSession(read, write) as client,
    ):
        yield client, await client.initialize()
