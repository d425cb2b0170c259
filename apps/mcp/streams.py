"""The stream on which a call is answered whose Tool asks the client's human (N5, H4, K12).

The call waits in the event loop.  Every few seconds, and whenever its client has said something, the
request is answered again from the start: so a revoked credential, an ended session and a question
that was answered elsewhere end the wait, each with the reply that the request gets at that moment.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, suppress
from dataclasses import replace
from functools import partial

import anyio
from mcp_types.jsonrpc import INVALID_REQUEST
from sse_starlette import EventSourceResponse
from sse_starlette.sse import SendTimeoutError

from apps.core import clock, conf, threads
from apps.core.errors import ErrorCode, LoomError
from apps.core.exchange import Receive, Reply, Scope, Send
from apps.mcp import elicitation, jsonrpc, waits
from apps.mcp.answering import OVERLOADED, incident, refuse, unavailable
from apps.mcp.elicitation import Action, Given
from apps.mcp.handshake import Asked
from apps.mcp.jsonrpc import RpcError
from apps.mcp.waiting import Watch
from apps.mcp.waits import Word

#: How often a waiting call is answered again without its client having said anything.
LOOK_SECONDS = 3.0
#: Between two progress notifications: within what clients wait for at least.
PROGRESS_SECONDS = 10.0
#: Between two comments that keep proxies from closing a silent connection.
KEEP_ALIVE_SECONDS = 15.0
#: A reader that takes nothing for this long has its stream dropped (FR-F15).
SEND_SECONDS = 10.0
#: Forms that a process holds open: of one credential, and of all.
MOST_OF_A_CREDENTIAL, MOST = 32, 256
#: A call asks this often at most: someone who cannot answer validly is not asked for ever.
MOST_ASKS = 10
_SHUTDOWN_SECONDS = 0.5
_STOPPING = unavailable("The service is being stopped and nothing was admitted; read `status` when it is back.")
#: Line breaks to some readers of a stream, though to no reader that follows the standard; escaped they are none.
_LINE_BREAKS = {0x85: "\\u0085", 0x2028: "\\u2028", 0x2029: "\\u2029"}

#: Answers the same request again, with what its client's human said or ``None``.
Again = Callable[[Given | None], Awaitable[Reply | Asked]]


class Streams:
    """The waiting calls of one process at one Entry."""

    def __init__(self) -> None:
        self.watch = Watch()
        self._open: Counter[object] = Counter()

    def refuse(self, asked: Asked) -> Reply | None:
        """Why this call cannot wait as well, if it cannot."""
        if self._open.total() >= MOST:
            return refuse(unavailable("The service holds as many forms open as it can."), asked.call)
        if self._open[asked.caller.credential_id] < MOST_OF_A_CREDENTIAL:
            return None
        message = f"{MOST_OF_A_CREDENTIAL} forms are open under this credential; have one answered or cancel one."
        error = LoomError(ErrorCode.RATE_LIMITED, message)
        return refuse(RpcError(INVALID_REQUEST, message, status=429, data=error.to_wire()), asked.call)

    async def respond(self, asked: Asked, again: Again, scope: Scope, receive: Receive, send: Send) -> None:
        """Ask, wait, and answer, until the reply is out or the client has gone."""
        owner = asked.caller.credential_id
        self._open[owner] += 1
        stopping = anyio.Event()
        response = EventSourceResponse(
            _Waiting(asked, again, self.watch, stopping).events(),
            headers={"X-Content-Type-Options": "nosniff"},
            ping=KEEP_ALIVE_SECONDS,
            send_timeout=SEND_SECONDS,
            shutdown_event=stopping,
            shutdown_grace_period=_SHUTDOWN_SECONDS,
        )
        try:
            await response(scope, receive, send)
        except SendTimeoutError:
            pass  # as if it had gone: the wait is over, what was admitted stays admitted
        finally:
            self._open[owner] -= 1
            if not self._open[owner]:
                del self._open[owner]


class _Waiting:
    """One call that waits."""

    def __init__(self, asked: Asked, again: Again, watch: Watch, stopping: anyio.Event) -> None:
        self._asked = asked
        self._again = again
        self._watch = watch
        self._stopping = stopping
        self._key: uuid.UUID | None = None
        self._began = self._said = time.monotonic()

    async def events(self) -> AsyncGenerator[dict[str, str], None]:
        """What goes out; the last one is the reply, unless the client cancelled the call."""
        try:
            async with aclosing(self._messages()) as messages:
                async for message in messages:
                    yield {"event": "message", "data": message.decode().translate(_LINE_BREAKS)}
        except threads.Overloaded:
            yield {"event": "message", "data": self._refusal(OVERLOADED)}
        except Exception:
            yield {"event": "message", "data": self._refusal(incident("a waiting call"))}
        finally:
            self._end()

    async def _messages(self) -> AsyncGenerator[bytes, None]:
        for _ in range(MOST_ASKS):
            await self._begin()
            yield self._request()
            given: Given | None = None
            while given is None:
                word = await self._word()
                if word is Word.CANCELLED:
                    return
                if self._stopping.is_set() and not isinstance(word, Given):
                    yield self._withdraw()
                    yield refuse(_STOPPING, self._asked.call).body
                    return
                given = self._given(word)
                found = await self._again(given)
                if isinstance(found, Reply):
                    if not isinstance(word, Given):
                        yield self._withdraw()
                    await self._forget()
                    yield found.body
                    return
                self._asked = found
                if self._is_due():
                    yield self._progress()
        found = await self._again(Given(self._asked.ask.key, Action.CANCEL, {}))
        assert isinstance(found, Reply), "a form that was closed is asked for no more"
        await self._forget()
        yield found.body

    async def _begin(self) -> None:
        self._end()
        self._key = await threads.run(
            partial(waits.begin, session=self._asked.session, call=self._asked.call, now=clock.now())
        )

    async def _forget(self) -> None:
        """End the wait before the reply goes out: what a client says after that is awaited by nobody."""
        with suppress(Exception):  # the reply is worth more; `_end` tries again
            if self._key is not None:
                await threads.run(partial(waits.end, self._key))
                self._key = None

    def _end(self) -> None:
        if self._key is not None:
            threads.start(partial(waits.end, self._key))

    async def _word(self) -> Given | Word | None:
        """What the client says; ``None`` when it says nothing for a while, or the service stops."""
        if self._key is None:
            return Word.GONE
        told = asyncio.ensure_future(self._watch.word(self._key, within=LOOK_SECONDS))
        stop = asyncio.ensure_future(self._stopping.wait())
        try:
            await asyncio.wait({told, stop}, return_when=asyncio.FIRST_COMPLETED)
            return told.result() if told.done() else None
        finally:
            told.cancel()
            stop.cancel()

    def _given(self, word: Given | Word | None) -> Given | None:
        """The word as an answer to the question; too long a silence is one as well."""
        key = self._asked.ask.key
        if isinstance(word, Given):
            return replace(word, key=key)
        over = time.monotonic() - self._began > conf.settings().form_seconds
        return Given(key, Action.CANCEL, {}) if over or word is Word.GONE else None

    def _request(self) -> bytes:
        request = elicitation.request_of(self._asked.ask, self._asked.session.version)
        return jsonrpc.request(str(self._key), request["method"], request["params"])

    def _withdraw(self) -> bytes:
        """Has the client close a form that is needed no more."""
        return jsonrpc.notification("notifications/cancelled", {"requestId": str(self._key)})

    def _is_due(self) -> bool:
        return self._asked.progress_token is not None and time.monotonic() - self._said >= PROGRESS_SECONDS

    def _progress(self) -> bytes:
        self._said = time.monotonic()
        waited = round(self._said - self._began, 3)
        params = {"progressToken": self._asked.progress_token, "progress": waited, "message": "Waiting for the answer"}
        return jsonrpc.notification("notifications/progress", params)

    def _refusal(self, error: RpcError) -> str:
        return refuse(error, self._asked.call).body.decode()
