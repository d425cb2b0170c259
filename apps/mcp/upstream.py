"""Messages to the running service and back, over Streamable HTTP (N4, N5).

Each goes to the service that runs at that moment, so one that was started later, or anew at another
address, is found.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import httpx
from httpx_sse import EventSource
from mcp_types.jsonrpc import INTERNAL_ERROR, INVALID_REQUEST

from apps.access.connection import CONNECTION_FILE, find_running
from apps.core import json_text
from apps.core.errors import ErrorCode, LoomError
from apps.mcp.client import NOT_TAKEN, NotRunning
from apps.mcp.jsonrpc import RequestId, RpcError, text_of
from apps.mcp.protocol import METHOD_HEADER, SESSION_HEADER
from apps.mcp.stdio import Line, on_one_line

logger = logging.getLogger("loomsvc.mcp.proxy")

#: Takes one message of the service, on one line.
Emit = Callable[[bytes], Awaitable[None]]

LOST = (
    "The service ended or fell silent before it answered, so whether this was applied is not known. After a write, ask "
    "get_operation with its operationId and serviceInstanceId (after a restart find_run) before you send it again."
)
CONNECT_SECONDS = 3
#: Until an answer must have begun; an event stream may then go on as long as a person thinks.
ANSWER_SECONDS = 60
#: How often a stream that broke off is taken up again before its answer counts as lost.
_RESUMPTIONS = 3
_RESUME_SECONDS = 1.0
_JSON, _EVENTS = "application/json", "text/event-stream"


class SessionLost(Exception):
    """The service does not know the session; it did nothing else with the request."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A response, and the session that its HTTP response named."""

    value: dict[str, Any]
    session_id: str | None


@dataclass(slots=True)
class Stream:
    """What is known of an event stream, also after it broke off; the answer to ``awaits`` ends it."""

    awaits: RequestId | None = None
    answer: dict[str, Any] | None = None
    last_event_id: str = ""
    pause: float = _RESUME_SECONDS


class Upstream:
    """One Entry of the service that runs on ``folder``; it never falls back to another."""

    def __init__(self, http: httpx.AsyncClient, folder: Path, entry: str) -> None:
        self._http = http
        self._folder = folder
        self._entry = entry

    async def ask(self, line: Line, headers: Mapping[str, str], emit: Emit) -> Answer:
        """Send a request and give ``emit`` all that comes back, its answer last.

        Raises :class:`RpcError` when there was none, :class:`SessionLost` when the service must be asked
        again in another session.
        """
        stream = Stream(awaits=line.id)
        async with self._exchange("POST", headers, line.raw) as response:
            session_id = response.headers.get(SESSION_HEADER)
            if response.status_code == httpx.codes.UNAUTHORIZED:
                raise RpcError(INVALID_REQUEST, NOT_TAKEN, data=_wire(ErrorCode.UNAUTHENTICATED, NOT_TAKEN))
            if response.status_code == httpx.codes.NOT_FOUND and SESSION_HEADER in headers:
                raise SessionLost
            if not _is_events(response):
                return Answer(await _take_body(response, stream, emit), session_id)
            await _take_events(response, stream, emit)
        # The stateless era takes no stream up again.
        for _ in range(0 if METHOD_HEADER in headers else _RESUMPTIONS):
            if stream.answer is not None or not stream.last_event_id:
                break
            await anyio.sleep(stream.pause)
            try:
                if not await self.follow(stream, headers, emit):
                    break
            except RpcError:
                logger.debug("A stream could not be taken up again", exc_info=True)
        if stream.answer is None:
            raise RpcError(INTERNAL_ERROR, LOST)
        return Answer(stream.answer, session_id)

    async def follow(self, stream: Stream, headers: Mapping[str, str], emit: Emit) -> bool:
        """Read a stream by GET, from where it broke off; whether the service offers it."""
        resume = {"last-event-id": stream.last_event_id} if stream.last_event_id else {}
        async with self._exchange("GET", {**headers, **resume}) as response:
            if not _is_events(response):
                return False
            await _take_events(response, stream, emit)
        return True

    async def deliver(self, line: Line, headers: Mapping[str, str]) -> None:
        """Send what gets no answer; raises :class:`RpcError` when it was not taken."""
        async with self._exchange("POST", headers, line.raw) as response:
            if response.is_error:
                raise RpcError(INTERNAL_ERROR, f"The service did not take it (HTTP {response.status_code}).")

    async def end_session(self, headers: Mapping[str, str]) -> None:
        """Tell the service that nobody will use the session again; whether it allows that is its own affair."""
        async with self._exchange("DELETE", headers):
            pass

    @asynccontextmanager
    async def _exchange(
        self, method: str, headers: Mapping[str, str], body: bytes | None = None
    ) -> AsyncIterator[httpx.Response]:
        url, token = self._find()
        accept = _EVENTS if method == "GET" else f"{_JSON}, {_EVENTS}"
        content_type = {} if body is None else {"content-type": _JSON}
        own = {"accept": accept, "authorization": f"Bearer {token}", **content_type}
        request = self._http.build_request(method, url, content=body, headers={**headers, **own})
        try:
            with anyio.fail_after(ANSWER_SECONDS):
                response = await self._http.send(request, stream=True)
        except (httpx.ConnectError, httpx.ConnectTimeout):
            raise self._not_running() from None
        except (httpx.HTTPError, TimeoutError):
            raise RpcError(INTERNAL_ERROR, LOST) from None
        try:
            yield response
        finally:
            await response.aclose()

    def _find(self) -> tuple[str, str]:
        """The Entry's address and credential, read anew each time: a restart may have changed them."""
        connection = find_running(self._folder)
        if connection is None:
            raise self._not_running()
        try:
            entry = connection["entries"][self._entry]
            return str(connection["url"] + entry["path"]), str(entry["token"])
        except (KeyError, TypeError):
            text = f"{CONNECTION_FILE} has nothing for the Entry {self._entry}; start the service anew: loomsvc up."
            raise unavailable(text) from None

    def _not_running(self) -> RpcError:
        return unavailable(f"{NotRunning(self._folder)} Then send this again.")


def unavailable(text: str) -> RpcError:
    """Nothing was done; the same may succeed a little later."""
    return RpcError(INTERNAL_ERROR, text, data=_wire(ErrorCode.UNAVAILABLE, text))


def _wire(code: ErrorCode, text: str) -> dict[str, Any]:
    return LoomError(code, text).to_wire()


def _is_events(response: httpx.Response) -> bool:
    return response.is_success and response.headers.get("content-type", "").startswith(_EVENTS)


async def _take_body(response: httpx.Response, stream: Stream, emit: Emit) -> dict[str, Any]:
    try:
        with anyio.fail_after(ANSWER_SECONDS):
            body = await response.aread()
    except (httpx.HTTPError, TimeoutError):
        raise RpcError(INTERNAL_ERROR, LOST) from None
    await _take(body, stream, emit)
    if stream.answer is None:
        raise unavailable(f"What answers there is not loomsvc (HTTP {response.status_code}).")
    return stream.answer


async def _take_events(response: httpx.Response, stream: Stream, emit: Emit) -> None:
    """Until the answer came or the stream ended, in whatever way."""
    try:
        async with aclosing(EventSource(response).aiter_sse()) as events:
            async for event in events:
                stream.last_event_id = event.id or stream.last_event_id
                if event.retry is not None:
                    stream.pause = event.retry / 1000
                if event.data:
                    await _take(event.data.encode(), stream, emit)
                if stream.answer is not None:
                    return
    except httpx.HTTPError:
        logger.debug("A stream broke off", exc_info=True)


async def _take(text: bytes, stream: Stream, emit: Emit) -> None:
    """Give one message to ``emit``, if it is one that may go there."""
    try:
        value = json_text.parse(text)
    except json_text.NotJson:
        value = None
    if not isinstance(value, dict):
        return
    if "result" in value or "error" in value:
        if value.get("id") is None:
            # Refused before it was read: the service could not know whose answer this is.
            value["id"] = stream.awaits
            text = text_of(value)
        if value["id"] != stream.awaits or stream.awaits is None:
            return
        stream.answer = value
    elif not isinstance(value.get("method"), str):
        return
    await emit(on_one_line(text))
