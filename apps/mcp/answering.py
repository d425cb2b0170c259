"""From one request to one reply, synchronously: who calls, in what form, in which era (N1, N3, N5)."""

from __future__ import annotations

import datetime as dt
import logging

from mcp_types.jsonrpc import INTERNAL_ERROR, INVALID_REQUEST

from apps.access.services.throttling import authenticate_from
from apps.core.caller import Caller
from apps.core.database import DATABASE_TROUBLE
from apps.core.errors import ErrorCode, LoomError
from apps.core.exchange import Head, Reply
from apps.core.ids import new_id
from apps.mcp import door, handshake, jsonrpc, modern
from apps.mcp.jsonrpc import Message, RequestId, RpcError
from apps.mcp.protocol import HANDSHAKE_VERSIONS, MODERN_VERSIONS, VERSION_HEADER
from apps.mcp.tools import EntryServer

logger = logging.getLogger("loomsvc.mcp")

_STATUS_OF = {ErrorCode.UNAUTHENTICATED: 401, ErrorCode.FORBIDDEN: 403, ErrorCode.RATE_LIMITED: 429}
_RETRY_SECONDS = 5


def answer(server: EntryServer, head: Head, body: bytes | None, now: dt.datetime) -> Reply:
    """The reply to a request whose ``Host`` and ``Origin`` are allowed.

    ``body`` is ``None`` when it was longer than may be sent.  Never raises.
    """
    request_id: RequestId | None = None
    try:
        caller = _who_calls(server, head, now)
        door.check_form(head)
        if body is None:
            raise RpcError(INVALID_REQUEST, "The body is longer than this service takes.", status=413)
        message = jsonrpc.read(body)
        request_id = message.id
        if message.id is None:
            _take_notification(head, message)
            return Reply(202)
        return Reply(200, jsonrpc.success(message.id, _answer(server, caller, head, message)))
    except RpcError as error:
        return refuse(error, request_id)
    except DATABASE_TROUBLE:
        logger.warning("The ledger failed a request", exc_info=True)
        return refuse(unavailable("The ledger cannot be reached just now."), request_id)
    except Exception:
        incident = str(new_id())
        logger.exception("Incident %s in a request", incident)
        text = f"The service failed at this request; its operator finds the reason under incident {incident}."
        return refuse(RpcError(INTERNAL_ERROR, text, status=500), request_id)


def refuse(error: RpcError, request_id: RequestId | None = None) -> Reply:
    """The reply that carries ``error``."""
    return Reply(
        error.status, jsonrpc.failure(request_id if request_id is not None else error.request_id, error), error.headers
    )


def unavailable(message: str) -> RpcError:
    """503; the same request may succeed a little later."""
    data = LoomError(ErrorCode.UNAVAILABLE, message).to_wire()
    return RpcError(INTERNAL_ERROR, message, status=503, data=data, headers=(("retry-after", str(_RETRY_SECONDS)),))


def _who_calls(server: EntryServer, head: Head, now: dt.datetime) -> Caller:
    try:
        return authenticate_from(
            address=head.address, authorization=head.get("authorization"), entry=server.entry, now=now
        )
    except LoomError as error:
        headers: tuple[tuple[str, str], ...] = ()
        if error.code is ErrorCode.UNAUTHENTICATED:
            headers = (("www-authenticate", "Bearer"),)
        if error.retry_after is not None:
            headers = (("retry-after", str(error.retry_after)),)
        raise RpcError(
            INVALID_REQUEST, error.message, status=_STATUS_OF[error.code], data=error.to_wire(), headers=headers
        ) from None


def _is_modern(head: Head, message: Message) -> bool:
    """Which era a message belongs to; raises for a revision of neither (400)."""
    version = head.get(VERSION_HEADER)
    if modern.is_modern(message) or version in MODERN_VERSIONS:
        return True
    if version is not None and version not in HANDSHAKE_VERSIONS:
        raise modern.unsupported(version)
    return False


def _answer(server: EntryServer, caller: Caller, head: Head, message: Message) -> bytes:
    if _is_modern(head, message):
        return modern.answer(server, caller, head, message)
    return handshake.answer(server, caller, head, message)


def _take_notification(head: Head, message: Message) -> None:
    """Nothing here waits for one: a call under way is answered whole, whatever its client tells later."""
    if not _is_modern(head, message):
        handshake.check_head(head, message)
