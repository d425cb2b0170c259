"""From one request to one reply, synchronously: who calls, in what form, in which era (N1, N3, N5)."""

from __future__ import annotations

import datetime as dt
import logging

from mcp_types.jsonrpc import INTERNAL_ERROR, INVALID_REQUEST

from apps.access.services.throttling import authenticate_from
from apps.core.caller import Caller
from apps.core.database import DATABASE_TROUBLE
from apps.core.errors import ErrorCode, LoomError, cut_off
from apps.core.exchange import Head, Reply
from apps.core.ids import new_id
from apps.core.outages import outage
from apps.mcp import door, handshake, jsonrpc, modern
from apps.mcp.elicitation import Given
from apps.mcp.handshake import Asked
from apps.mcp.jsonrpc import Answer, Message, RequestId, RpcError
from apps.mcp.protocol import HANDSHAKE_VERSIONS, MODERN_VERSIONS, SESSION_HEADER, VERSION_HEADER
from apps.mcp.tools import EntryServer

logger = logging.getLogger("loomsvc.mcp")

_STATUS_OF = {ErrorCode.UNAUTHENTICATED: 401, ErrorCode.FORBIDDEN: 403, ErrorCode.RATE_LIMITED: 429}
_RETRY_SECONDS = 5


def answer(
    server: EntryServer,
    head: Head,
    body: bytes | None,
    now: dt.datetime,
    *,
    given: Given | None = None,
    request_id: RequestId | None = None,
) -> Reply | Asked:
    """The reply to a request whose ``Host`` and ``Origin`` are allowed, or what its Tool asks before it can reply.

    ``body`` is ``None`` when it was longer than may be sent.  A request that asked is answered by
    being answered again: with what was ``given`` to the question, or without, to see whether it
    still stands; its ``request_id`` is then known beforehand.  Never raises.
    """
    try:
        caller = _who_calls(server, head, now)
        if head.method == "DELETE" and _names_session(head):
            handshake.end(caller, head, now)
            return Reply(204)
        door.check_form(head)
        if body is None:
            raise RpcError(INVALID_REQUEST, "The body is longer than this service takes.", status=413)
        message = jsonrpc.read(body)
        if isinstance(message, Answer):
            _take_answer(caller, head, message, now)
            return Reply(202)
        request_id = message.id
        if message.id is None:
            if not _is_modern(head, message):
                handshake.take_notification(caller, head, message, now)
            return Reply(202)
        if _is_modern(head, message):
            return Reply(200, jsonrpc.success(message.id, modern.answer(server, caller, head, message, now)))
        return handshake.answer(server, caller, head, message, given, now)
    except RpcError as error:
        return refuse(error, request_id)
    except DATABASE_TROUBLE as error:
        logger.warning("The ledger failed a request", exc_info=True)
        return refuse(unavailable(outage(error).message), request_id)
    except Exception:
        return refuse(incident("a request"), request_id)


def incident(where: str) -> RpcError:
    """500 for the exception that is being handled: the log has it, the client gets the id to ask for it."""
    name = str(new_id())
    logger.exception("Incident %s in %s", name, where)
    text = f"The service failed at this request; its operator finds the reason under incident {name}."
    return RpcError(INTERNAL_ERROR, text, status=500)


def refuse(error: RpcError, request_id: RequestId | None = None) -> Reply:
    """The reply that carries ``error``."""
    return Reply(
        error.status, jsonrpc.failure(request_id if request_id is not None else error.request_id, error), error.headers
    )


def unavailable(message: str) -> RpcError:
    """503; the same request may succeed a little later."""
    data = LoomError(ErrorCode.UNAVAILABLE, message).to_wire()
    return RpcError(INTERNAL_ERROR, message, status=503, data=data, headers=(("retry-after", str(_RETRY_SECONDS)),))


def stopped() -> RpcError:
    """500 for a request that was under way when the service was stopped."""
    error = cut_off()
    return RpcError(INTERNAL_ERROR, error.message, status=500, data=error.to_wire())


#: More requests than threads and queue hold.
OVERLOADED = unavailable("The service has more requests than it can answer just now.")


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


def _names_session(head: Head) -> bool:
    return head.get(SESSION_HEADER) is not None and head.get(VERSION_HEADER) not in MODERN_VERSIONS


def _check_version(version: str | None) -> None:
    """Raises for a revision that is not served at all (400)."""
    if version is not None and version not in (*HANDSHAKE_VERSIONS, *MODERN_VERSIONS):
        raise modern.unsupported(version)


def _is_modern(head: Head, message: Message) -> bool:
    """Which era a message belongs to; raises for a revision of neither (400)."""
    if modern.is_modern(message):
        return True
    _check_version(head.get(VERSION_HEADER))
    return head.get(VERSION_HEADER) in MODERN_VERSIONS


def _take_answer(caller: Caller, head: Head, message: Answer, now: dt.datetime) -> None:
    """Only the older era asks by requests of its own; its answers come with the session that was asked."""
    _check_version(head.get(VERSION_HEADER))
    handshake.take_answer(caller, head, message, now)
