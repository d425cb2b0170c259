"""The stateless era, revision 2026-07-28: every request carries its own version and capabilities (N5)."""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import re

from mcp_types import CLIENT_CAPABILITIES_META_KEY, PROTOCOL_VERSION_META_KEY
from mcp_types.jsonrpc import HEADER_MISMATCH, INVALID_PARAMS, METHOD_NOT_FOUND, UNSUPPORTED_PROTOCOL_VERSION

from apps.core.caller import Caller
from apps.core.exchange import Head
from apps.mcp import elicitation, methods, request_state
from apps.mcp.calls import call_asking, call_tool
from apps.mcp.elicitation import Ask, Given
from apps.mcp.jsonrpc import Message, RpcError, text_of
from apps.mcp.listing import COMPLETE
from apps.mcp.mirrored import NAMED_BY
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
    name = message.params.get(NAMED_BY.get(message.method, ""))
    if isinstance(name, str):
        expected[NAME_HEADER] = name
    for header, value in expected.items():
        sent = head.get(header)
        if sent is None or (decode_header(sent) if header == NAME_HEADER else sent) != value:
            raise RpcError(HEADER_MISMATCH, f"Send the header {header} with the same value as in the body.")
    if version not in MODERN_VERSIONS:
        raise unsupported(version)
    return str(version)


def answer(server: EntryServer, caller: Caller, head: Head, message: Message, now: dt.datetime) -> bytes:
    """The JSON of the result; raises :class:`RpcError`."""
    version = _check_envelope(head, message)
    if message.method != "tools/call" and not methods.is_served(server, message.method, version):
        raise RpcError(METHOD_NOT_FOUND, "There is no such method here.", status=404)
    methods.check_params(message, version, status=_STATUS)
    if message.method != "tools/call":
        return methods.result(server, caller, message, version, status=_STATUS)
    tool = methods.find_tool(server, message, status=_STATUS)
    endpoint, arguments = server.endpoints[tool.name], methods.arguments_of(message)
    interaction = server.interactions.get(tool.name)
    given = _given(caller, tool.name, message, now)
    capabilities = message.meta[CLIENT_CAPABILITIES_META_KEY]
    if interaction is None or not elicitation.shows_forms(capabilities, version):
        return b"{" + call_tool(endpoint, caller, arguments) + b"," + _COMPLETE_MEMBERS
    found = call_asking(endpoint, interaction, caller, arguments, given)
    if isinstance(found, Ask):
        state = request_state.issue(caller=caller, tool=tool.name, arguments=arguments, key=found.key, now=now)
        return text_of(
            {
                "resultType": "input_required",
                "inputRequests": {found.key: elicitation.request_of(found, version)},
                "requestState": state,
                "_meta": COMPLETE["_meta"],
            }
        )
    return b"{" + found + b"," + _COMPLETE_MEMBERS


def _given(caller: Caller, tool: str, message: Message, now: dt.datetime) -> Given | None:
    """What was answered to the question that the call's state speaks of; other answers mean nothing here."""
    state = message.params.get("requestState")
    if state is None:
        return None
    key = request_state.read(state, caller=caller, tool=tool, arguments=methods.arguments_of(message), now=now)
    if key is None:
        text = "That requestState is none of this call, or too old; call the Tool anew without it."
        raise RpcError(INVALID_PARAMS, text, status=_STATUS)
    return elicitation.given_of(key, (message.params.get("inputResponses") or {}).get(key))
