"""The ``initialize`` era: 2025-03-26, 2025-06-18 and 2025-11-25 (N5).

``initialize`` opens a session.  A request without one is answered too, as a client that declared
nothing; only what needs the client's capabilities is then not offered.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

from mcp_types.jsonrpc import INVALID_REQUEST, METHOD_NOT_FOUND

from apps.core.caller import Caller
from apps.core.exchange import Head, Reply
from apps.mcp import elicitation, jsonrpc, methods, sessions, waits
from apps.mcp.calls import call_asking, call_tool
from apps.mcp.elicitation import Ask, Given
from apps.mcp.jsonrpc import Answer, Message, RequestId, RpcError
from apps.mcp.protocol import ASSUMED_HANDSHAKE, HANDSHAKE_VERSIONS, LATEST_HANDSHAKE, SESSION_HEADER, VERSION_HEADER
from apps.mcp.sessions import OpenSession
from apps.mcp.tools import EntryServer

#: Refusals of a well-formed request are ordinary responses in these revisions.
_STATUS = 200


@dataclass(frozen=True, slots=True)
class Asked:
    """A call whose Tool asks the client's human; it is answered when they have, on a stream."""

    caller: Caller
    session: OpenSession
    call: RequestId
    ask: Ask
    progress_token: RequestId | None


def _session(caller: Caller, head: Head, now: dt.datetime) -> OpenSession | None:
    """The session that the request names, if it names one; 404 tells its client to open another."""
    text = head.get(SESSION_HEADER)
    if text is None:
        return None
    session = sessions.find_session(caller=caller, text=text, now=now)
    if session is None:
        raise RpcError(INVALID_REQUEST, "No such session; send `initialize` again.", status=404)
    return session


def answer(
    server: EntryServer, caller: Caller, head: Head, message: Message, given: Given | None, now: dt.datetime
) -> Reply | Asked:
    """The reply, or what the Tool asks; ``given`` is what came back to that.  Raises :class:`RpcError`."""
    assert message.id is not None
    method = message.method
    session = None if method == "initialize" else _session(caller, head, now)
    version = head.get(VERSION_HEADER) or (session.version if session else ASSUMED_HANDSHAKE)
    if method != "tools/call" and not methods.is_served(server, method, version):
        raise RpcError(METHOD_NOT_FOUND, "There is no such method here.", status=_STATUS)
    methods.check_params(message, version, status=_STATUS)
    if method == "initialize":
        return _open(server, caller, message, now)
    if method != "tools/call":
        result = methods.result(server, caller, message, version, status=_STATUS)
        return Reply(200, jsonrpc.success(message.id, result))
    tool = methods.find_tool(server, message, status=_STATUS)
    endpoint, arguments = server.endpoints[tool.name], methods.arguments_of(message)
    interaction = server.interactions.get(tool.name)
    if interaction is None or session is None or not session.shows_forms:
        return Reply(200, jsonrpc.success(message.id, b"{" + call_tool(endpoint, caller, arguments) + b"}"))
    found = call_asking(endpoint, interaction, caller, arguments, given)
    if isinstance(found, Ask):
        return Asked(caller, session, message.id, found, _progress_token(message))
    return Reply(200, jsonrpc.success(message.id, b"{" + found + b"}"))


def _open(server: EntryServer, caller: Caller, message: Message, now: dt.datetime) -> Reply:
    assert message.id is not None
    wanted = message.params["protocolVersion"]
    version = wanted if wanted in HANDSHAKE_VERSIONS else LATEST_HANDSHAKE
    result = methods.result(server, caller, message, version, status=_STATUS)
    forms = elicitation.shows_forms(message.params["capabilities"], version)
    text = sessions.open_session(caller=caller, version=version, shows_forms=forms, now=now)
    return Reply(200, jsonrpc.success(message.id, result), ((SESSION_HEADER, text),))


def _progress_token(message: Message) -> RequestId | None:
    token = message.meta.get("progressToken") if isinstance(message.meta, dict) else None
    return token if isinstance(token, str) or type(token) is int else None


def take_notification(caller: Caller, head: Head, message: Message, now: dt.datetime) -> None:
    """A call that waits for a form is given up when its client cancels it; every other runs to its end."""
    session = _session(caller, head, now)
    call = message.params.get("requestId")
    if message.method == "notifications/cancelled" and session and (isinstance(call, str) or type(call) is int):
        waits.cancel(session=session, call=call)


def take_answer(caller: Caller, head: Head, answer: Answer, now: dt.datetime) -> None:
    """Hand an answer to the call that waits for it, in whichever process; raises when none does."""
    session = _session(caller, head, now)
    if session is None or not waits.tell(session=session, answer=answer):
        raise RpcError(INVALID_REQUEST, "No request of this service awaits that answer.")


def end(caller: Caller, head: Head, now: dt.datetime) -> None:
    """End the session that the request names; calls that wait in it end too."""
    session = _session(caller, head, now)
    assert session is not None
    sessions.end_session(session)
