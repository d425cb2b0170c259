"""The stdio bridge: any client that speaks MCP on standard input and output reaches the service (N4, F19)."""

from __future__ import annotations

import logging
import signal
from functools import partial
from pathlib import Path
from typing import BinaryIO

import anyio
import httpx
from anyio.abc import TaskGroup
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp_types.jsonrpc import INTERNAL_ERROR, INVALID_REQUEST

from apps.mcp import stdio
from apps.mcp.conversation import Conversation
from apps.mcp.jsonrpc import RequestId, RpcError, failure
from apps.mcp.mirrored import is_modern
from apps.mcp.stdio import Line
from apps.mcp.upstream import CONNECT_SECONDS, Upstream

logger = logging.getLogger("loomsvc.mcp.proxy")

#: How long requests under way, the last answers and the session's end may take once the client has left.
_LAST_CALLS, _LAST_LINES, _LAST_WORD = 0.8, 0.2, 0.3
#: Messages that wait until the client reads; the service waits too, then.
_QUEUED = 16


class Bridge:
    """Takes what the client says, line by line; requests go on side by side."""

    def __init__(self, conversation: Conversation, calls: TaskGroup, out: MemoryObjectSendStream[bytes]) -> None:
        self._conversation = conversation
        self._calls = calls
        self._out = out
        self._under_way: dict[RequestId, tuple[Line, anyio.CancelScope]] = {}

    async def take(self, raw: bytes | None) -> None:
        """Start what the line asks for."""
        try:
            if raw is None:
                raise RpcError(INVALID_REQUEST, f"Send at most {stdio.MAX_LINE_BYTES} bytes a line.")
            line = stdio.read(raw)
        except RpcError as error:
            await self._refuse(error.request_id, error)
            return
        if line.method is None or line.id is None:
            if line.method != "notifications/cancelled" or self._cancel(line):
                self._calls.start_soon(self._tell, line)
        elif line.id in self._under_way:
            await self._refuse(line.id, RpcError(INVALID_REQUEST, "A request with this id is under way already."))
        else:
            scope = anyio.CancelScope()
            self._under_way[line.id] = line, scope
            self._calls.start_soon(self._request, line, line.id, scope)

    def _cancel(self, notice: Line) -> bool:
        """Give up the request that ``notice`` names; whether the service must be told of it.

        In the stateless era the closed connection tells it.
        """
        named = notice.params.get("requestId")
        line, scope = self._under_way.get(named, (None, None)) if isinstance(named, str | int) else (None, None)
        if line is None or scope is None:
            return False
        scope.cancel()
        return not is_modern(line.params)

    async def _request(self, line: Line, request_id: RequestId, scope: anyio.CancelScope) -> None:
        try:
            with scope:
                try:
                    await self._conversation.request(line)
                except RpcError as error:
                    await self._refuse(request_id, error)
                except Exception:
                    logger.exception("A request failed in the proxy")
                    text = "The proxy failed at this request; its standard error says why."
                    await self._refuse(request_id, RpcError(INTERNAL_ERROR, text))
        finally:
            del self._under_way[request_id]

    async def _tell(self, line: Line) -> None:
        try:
            await self._conversation.tell(line)
        except RpcError as error:
            logger.warning("%s was not delivered: %s", line.method or "An answer", error)
        except Exception:
            logger.exception("A message failed in the proxy")

    async def _refuse(self, request_id: RequestId | None, error: RpcError) -> None:
        await self._out.send(failure(request_id, error))


async def serve(folder: Path, entry: str, stdin: BinaryIO, stdout: BinaryIO) -> None:
    """Bridge until ``stdin`` ends, nobody reads ``stdout`` any more, or this is cancelled."""
    timeout = httpx.Timeout(None, connect=CONNECT_SECONDS)
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=8)
    out, lines = anyio.create_memory_object_stream[bytes](_QUEUED)
    # Straight to loopback: a proxy from the environment would see the credential.
    async with (
        httpx.AsyncClient(timeout=timeout, limits=limits, trust_env=False) as http,
        out,
        anyio.create_task_group() as writing,
    ):
        async with anyio.create_task_group() as listening:
            writing.start_soon(_write, stdout, lines, listening.cancel_scope)
            conversation = Conversation(Upstream(http, folder, entry), listening, out.send)
            try:
                async with anyio.create_task_group() as calls:
                    bridge = Bridge(conversation, calls, out)
                    async for raw in stdio.read_lines(stdin):
                        await bridge.take(raw)
                    calls.cancel_scope.deadline = anyio.current_time() + _LAST_CALLS
            finally:
                with anyio.move_on_after(_LAST_WORD, shield=True):
                    await conversation.end()
            listening.cancel_scope.cancel()
        out.close()
        writing.cancel_scope.deadline = anyio.current_time() + _LAST_LINES


async def _write(stdout: BinaryIO, lines: MemoryObjectReceiveStream[bytes], others: anyio.CancelScope) -> None:
    """The one place that writes, so that no message stands inside another."""
    async with lines:
        async for line in lines:
            try:
                await stdio.write_line(stdout, line)
            except OSError:
                others.cancel()
                return


def run(folder: Path, entry: str, stdin: BinaryIO, stdout: BinaryIO) -> None:
    """The same as a program, which signals end too.

    A thread may still wait for ``stdin`` afterwards, so the process must end without waiting for threads.
    """
    anyio.run(partial(_until_signalled, folder, entry, stdin, stdout))


async def _until_signalled(folder: Path, entry: str, stdin: BinaryIO, stdout: BinaryIO) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_cancel_when_signalled, tasks.cancel_scope)
        await serve(folder, entry, stdin, stdout)
        tasks.cancel_scope.cancel()


async def _cancel_when_signalled(scope: anyio.CancelScope) -> None:
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async for _ in signals:
            scope.cancel()
            return
