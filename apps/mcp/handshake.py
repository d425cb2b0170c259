"""The ``initialize`` era: 2025-03-26, 2025-06-18 and 2025-11-25 (N5).

Every request is answered with one JSON body, which needs no session, so none is issued.
"""

from __future__ import annotations

from mcp_types.jsonrpc import INVALID_REQUEST, METHOD_NOT_FOUND

from apps.core.caller import Caller
from apps.core.exchange import Head
from apps.mcp import methods
from apps.mcp.calls import call_tool
from apps.mcp.jsonrpc import Message, RpcError
from apps.mcp.protocol import ASSUMED_HANDSHAKE, HANDSHAKE_VERSIONS, LATEST_HANDSHAKE, SESSION_HEADER, VERSION_HEADER
from apps.mcp.tools import EntryServer

#: Refusals of a well-formed request are ordinary responses in these revisions.
_STATUS = 200


def check_head(head: Head, message: Message) -> None:
    """A session that was never issued is answered as one that ended: 404, and the client starts anew."""
    if head.get(SESSION_HEADER) is not None and message.method != "initialize":
        raise RpcError(INVALID_REQUEST, "No such session; send `initialize` again.", status=404)


def answer(server: EntryServer, caller: Caller, head: Head, message: Message) -> bytes:
    """The JSON of the result; raises :class:`RpcError`."""
    check_head(head, message)
    version = head.get(VERSION_HEADER) or ASSUMED_HANDSHAKE
    method = message.method
    if method != "tools/call" and (method, version) not in server.listings:
        raise RpcError(METHOD_NOT_FOUND, "There is no such method here.", status=_STATUS)
    methods.check_params(message, version, status=_STATUS)
    if method == "tools/call":
        tool = methods.find_tool(server, message, status=_STATUS)
        return b"{" + call_tool(tool, caller, methods.arguments_of(message)) + b"}"
    if method == "initialize":
        wanted = message.params["protocolVersion"]
        version = wanted if wanted in HANDSHAKE_VERSIONS else LATEST_HANDSHAKE
    return methods.listing(server, message, version, status=_STATUS)
