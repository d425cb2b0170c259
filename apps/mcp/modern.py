"""The stateless era, revision 2026-07-28: every request carries its own version and capabilities (N5)."""

from __future__ import annotations

import base64
import binascii
import re

from mcp_types import CLIENT_CAPABILITIES_META_KEY, PROTOCOL_VERSION_META_KEY
from mcp_types.jsonrpc import HEADER_MISMATCH, INVALID_PARAMS, METHOD_NOT_FOUND, UNSUPPORTED_PROTOCOL_VERSION

from apps.core.caller import Caller
from apps.core.exchange import Head
from apps.mcp import methods
from apps.mcp.calls import call_tool
from apps.mcp.jsonrpc import Message, RpcError, text_of
from apps.mcp.listing import COMPLETE
from apps.mcp.protocol import METHOD_HEADER, MODERN_VERSIONS, NAME_HEADER, VERSION_HEADER
from apps.mcp.tools import EntryServer

_STATUS = 400
_ENVELOPE_KEYS = (PROTOCOL_VERSION_META_KEY, CLIENT_CAPABILITIES_META_KEY)
_ENCODED = re.compile(r"=\?base64\?(.*)\?=")
#: The rest of a complete result, after its own members.
_COMPLETE_MEMBERS = text_of(COMPLETE)[1:]


def is_modern(message: Message) -> bool:
    """Whether the message brings (part of) the envelope that only this era has."""
    return isinstance(message.meta, dict) and any(key in message.meta for key in _ENVELOPE_KEYS)


def unsupported(requested: str) -> RpcError:
    """The refusal of a revision that is not served; ``supported`` is what ``server/discover`` lists."""
    data = {"supported": list(MODERN_VERSIONS), "requested": requested}
    return RpcError(UNSUPPORTED_PROTOCOL_VERSION, "This protocol version is not served here.", data=data)


def decode_header(value: str | None) -> str | None:
    """A header's value, ``=?base64?…?=`` undone; ``None`` when it is absent or not decodable."""
    match = _ENCODED.fullmatch(value) if value is not None else None
    if match is None:
        return value
    try:
        raw = base64.b64decode(match[1], validate=True)
        # Only the canonical form: two spellings of one name would let a proxy and us disagree.
        return raw.decode() if base64.b64encode(raw).decode() == match[1] else None
    except (binascii.Error, UnicodeDecodeError):
        return None


def _check_envelope(head: Head, message: Message) -> str:
    """The request's revision, once its envelope is whole and its headers say the same as its body."""
    meta = message.meta
    if not isinstance(meta, dict) or any(key not in meta for key in _ENVELOPE_KEYS):
        raise RpcError(INVALID_PARAMS, f"Send `params._meta` with {' and '.join(_ENVELOPE_KEYS)}.")
    version = meta[PROTOCOL_VERSION_META_KEY]
    expected = {VERSION_HEADER: version, METHOD_HEADER: message.method}
    if message.method == "tools/call" and isinstance(message.params.get("name"), str):
        expected[NAME_HEADER] = message.params["name"]
    for header, value in expected.items():
        sent = head.get(header)
        if sent is None or (decode_header(sent) if header == NAME_HEADER else sent) != value:
            raise RpcError(HEADER_MISMATCH, f"Send the header {header} with the same value as in the body.")
    if version not in MODERN_VERSIONS:
        raise unsupported(version)
    return str(version)


def answer(server: EntryServer, caller: Caller, head: Head, message: Message) -> bytes:
    """The JSON of the result; raises :class:`RpcError`."""
    version = _check_envelope(head, message)
    if message.method != "tools/call" and (message.method, version) not in server.listings:
        raise RpcError(METHOD_NOT_FOUND, "There is no such method here.", status=404)
    methods.check_params(message, version, status=_STATUS)
    if message.method != "tools/call":
        return methods.listing(server, message, version, status=_STATUS)
    tool = methods.find_tool(server, message, status=_STATUS)
    if message.params.get("requestState") is not None:
        raise RpcError(INVALID_PARAMS, "That requestState was not issued here; call the Tool anew without it.")
    return b"{" + call_tool(tool, caller, methods.arguments_of(message)) + b"," + _COMPLETE_MEMBERS
