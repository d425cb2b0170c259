"""Django as an ASGI application on the threads that answer requests.

Django's own ASGI handler makes a new thread for each request, so every request opens a database
connection anew, and it stores whole bodies before anyone looks at them.  Here ``Host``, ``Origin``,
the address and the body's length are checked first (K4, K7, K23), then one thread of the bounded pool runs
middleware and view with the connection it already has (``docs/decisions/0011-django-on-a-pool-of-threads.md``).
"""

from __future__ import annotations

import asyncio
from functools import partial
from http import HTTPStatus
from importlib import import_module
from io import BytesIO
from urllib.parse import unquote

from django.conf import settings
from django.core import signals
from django.core.handlers.asgi import ASGIRequest, get_script_prefix
from django.core.handlers.base import BaseHandler
from django.http.response import HttpResponseBase
from django.urls import Resolver404, resolve, set_script_prefix

from apps.core import threads
from apps.core.errors import ErrorCode, LoomError, cut_off
from apps.core.exchange import Disconnected, Head, Receive, Scope, Send, read_body
from apps.core.hosts import is_allowed_host, is_allowed_origin
from apps.core.redaction import holds_credential
from apps.rest.arguments import with_encoded_slashes
from apps.rest.authentication import CREDENTIAL_IN_URL
from apps.rest.problems import problem_response


class DjangoApplication(BaseHandler):
    """Everything that is served by ``urls.py``: the REST face, the admin, static files."""

    def __init__(self) -> None:
        super().__init__()
        self.load_middleware()
        # Before there are requests: the first to be looked up would have all others wait for it.
        import_module(settings.ROOT_URLCONF)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            response = await self._answer(scope, receive)
        except Disconnected:
            return
        await _send(response, send)

    async def _answer(self, scope: Scope, receive: Receive) -> HttpResponseBase:
        head = Head.of(scope)
        if not is_allowed_host(head.get("host"), settings.ALLOWED_HOSTS):
            return _refusal(HTTPStatus.MISDIRECTED_REQUEST, "This service does not answer to that Host.")
        if not is_allowed_origin(head.get("origin"), settings.ALLOWED_HOSTS):
            return _refusal(HTTPStatus.FORBIDDEN, "Requests from that Origin are not allowed.", ErrorCode.FORBIDDEN)
        if holds_credential(unquote(f"{scope['path']}?{head.query.decode('latin-1')}")):
            return _refusal(HTTPStatus.BAD_REQUEST, CREDENTIAL_IN_URL)
        limit = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
        try:
            body = await read_body(head, receive, limit=limit)
        except TimeoutError:
            return _refusal(HTTPStatus.REQUEST_TIMEOUT, "The body did not arrive in time.")
        if body is None:
            too_large = f"Send at most {limit} bytes."
            return _refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, too_large, ErrorCode.PAYLOAD_TOO_LARGE)
        scope = with_encoded_slashes(scope)
        try:
            return await threads.run(partial(self._respond, scope, body), long=_may_take_long(scope))
        except threads.Overloaded:
            text = "The service has more requests than it can answer just now."
            return problem_response(LoomError(ErrorCode.UNAVAILABLE, text))
        except asyncio.CancelledError:
            return problem_response(cut_off())

    def _respond(self, scope: Scope, body: bytes) -> HttpResponseBase:
        """Middleware and view; the response is closed unless its content is still to be read."""
        set_script_prefix(get_script_prefix(scope))
        signals.request_started.send(sender=type(self), scope=scope)
        try:
            request = ASGIRequest(scope, BytesIO(body))
        except UnicodeDecodeError:
            return _refusal(HTTPStatus.BAD_REQUEST, "Percent-encode the query as UTF-8.")
        response = self.get_response(request)
        response._handler_class = type(self)  # type: ignore[attr-defined]
        if not response.streaming:
            response.close()
        return response


def _may_take_long(scope: Scope) -> bool:
    """Whether what stands at the address is marked so."""
    try:
        view = resolve(scope["path"].removeprefix(get_script_prefix(scope))).func
    except Resolver404:
        return False
    return threads.may_take_long(view, scope["method"])


def _refusal(status: HTTPStatus, message: str, code: ErrorCode = ErrorCode.INVALID_REQUEST) -> HttpResponseBase:
    """A problem for what is refused before Django sees it; what the client still sends is not read."""
    response = problem_response(LoomError(code, message), status)
    response["Connection"] = "close"
    return response


async def _send(response: HttpResponseBase, send: Send) -> None:
    headers = [(name.encode("ascii"), value.encode("latin-1")) for name, value in response.items()]
    headers += [
        (b"Set-Cookie", cookie.output(header="").strip().encode("ascii")) for cookie in response.cookies.values()
    ]
    await send({"type": "http.response.start", "status": response.status_code, "headers": headers})
    if not response.streaming:
        await send({"type": "http.response.body", "body": response.content})  # type: ignore[attr-defined]
        return
    try:
        parts = iter(response)
        while (part := await threads.run(partial(next, parts, None))) is not None:
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body"})
    finally:
        await threads.run(response.close)
