"""What one client says to the service, in either era, and the session that it may be part of (N4, N5).

A session that a restart ended is opened again as the client once opened it, so its Tools keep working.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace

import anyio
from anyio.abc import TaskGroup

from apps.mcp.jsonrpc import RpcError
from apps.mcp.mirrored import is_modern, mirrored_headers
from apps.mcp.protocol import SESSION_HEADER, VERSION_HEADER
from apps.mcp.stdio import Line
from apps.mcp.upstream import Emit, SessionLost, Stream, Upstream, unavailable

logger = logging.getLogger("loomsvc.mcp.proxy")

#: Until a stream that failed is opened again; nothing but notices is missed meanwhile.
_LISTEN_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Session:
    """What ``initialize`` agreed on, and the client's messages that open its like."""

    id: str | None
    version: str
    opening: Line
    opened: Line | None = None

    @property
    def headers(self) -> dict[str, str]:
        return {VERSION_HEADER: self.version, **({SESSION_HEADER: self.id} if self.id else {})}


class Conversation:
    """``tasks`` outlives each single request; ``emit`` takes what the service says."""

    def __init__(self, upstream: Upstream, tasks: TaskGroup, emit: Emit) -> None:
        self._upstream = upstream
        self._tasks = tasks
        self._emit = emit
        self._session: Session | None = None
        #: Held while a session is opened: what the client says after that must not arrive before it.
        self._opening = anyio.Lock()

    async def request(self, line: Line) -> None:
        """Ask, and emit everything up to the answer; raises :class:`RpcError` when there was none."""
        if line.method == "initialize":
            async with self._opening:
                self._session = None
                self._session = await self._open(line, self._emit)
            return
        session = await self._present()
        try:
            await self._upstream.ask(line, _headers(line, session), self._emit)
        except SessionLost:
            assert session is not None
            session = await self._reopen(session)
            try:
                await self._upstream.ask(line, session.headers, self._emit)
            except SessionLost:
                raise unavailable("The service keeps no session just now; send this again.") from None

    async def tell(self, line: Line) -> None:
        """Hand on a notification, or the client's answer; raises :class:`RpcError` when it was not taken."""
        if line.method != "notifications/initialized":
            await self._upstream.deliver(line, _headers(line, await self._present()))
            return
        async with self._opening:
            await self._upstream.deliver(line, _headers(line, self._session))
            if self._session is not None:
                self._session = replace(self._session, opened=line)
                self._tasks.start_soon(self._listen, self._session)

    async def end(self) -> None:
        """Close the session, which the service would keep for a client that is gone."""
        if self._session is not None and self._session.id:
            try:
                await self._upstream.end_session(self._session.headers)
            except RpcError as error:
                logger.debug("The session was not closed: %s", error)

    async def _present(self) -> Session | None:
        async with self._opening:
            return self._session

    async def _open(self, opening: Line, emit: Emit) -> Session | None:
        """``None`` when the service refused, which ``emit`` has then got."""
        answer = await self._upstream.ask(opening, {}, emit)
        result = answer.value.get("result")
        version = result.get("protocolVersion") if isinstance(result, dict) else None
        return Session(answer.session_id, version, opening) if isinstance(version, str) else None

    async def _reopen(self, lost: Session) -> Session:
        """Another session in place of ``lost``, once for all requests that lost it."""
        async with self._opening:
            if self._session is not None and self._session.id != lost.id:
                return self._session
            session = await self._open(lost.opening, _swallow)
            if session is None:
                raise unavailable("The service was started anew and opened no session; connect this client again.")
            if lost.opened is not None:
                session = replace(session, opened=lost.opened)
                await self._upstream.deliver(lost.opened, session.headers)
                self._tasks.start_soon(self._listen, session)
            self._session = session
            return session

    async def _listen(self, session: Session) -> None:
        """Emit what the service says unasked, while it offers a stream for that and the session is in use."""
        stream = Stream()
        while self._session is session:
            try:
                if not await self._upstream.follow(stream, session.headers, self._emit):
                    return
                await anyio.sleep(stream.pause)
            except RpcError:
                await anyio.sleep(_LISTEN_SECONDS)


def _headers(line: Line, session: Session | None) -> Mapping[str, str]:
    if line.method is not None and is_modern(line.params):
        return mirrored_headers(line.method, line.params)
    return session.headers if session is not None else {}


async def _swallow(_: bytes) -> None:
    """The client has had the answer to its ``initialize``."""
