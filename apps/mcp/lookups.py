"""Methods whose results are looked up for their caller, each time anew: resources, prompts and completions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from mcp_types.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST
from mcp_types.methods import CACHEABLE_METHODS, serialize_server_result

from apps.core.caller import Caller
from apps.core.errors import ErrorCode, LoomError
from apps.core.redaction import mask_credentials
from apps.mcp import completions, prompts, resources
from apps.mcp.jsonrpc import Message, RpcError, text_of
from apps.mcp.listing import COMPLETE
from apps.mcp.protocol import MODERN_VERSIONS

#: What there is may be another thing at the next look, and another credential may see other things.
_CACHE_HINTS = {"ttlMs": 0, "cacheScope": "private"}
#: Until 2025-11-25 nothing under that address had a code of its own; since then its parameter is invalid.
_RESOURCE_NOT_FOUND = -32002
_CODES = {ErrorCode.INVALID_REQUEST: INVALID_PARAMS, ErrorCode.PAYLOAD_TOO_LARGE: INVALID_REQUEST}

#: (caller, parameters of the revision's shape, names of the Entry's Tools) → the result's own members.
LookUp = Callable[[Caller, Mapping[str, Any], Collection[str]], dict[str, Any]]

LOOK_UPS: Mapping[str, LookUp] = {
    "resources/list": lambda caller, params, _: resources.page(caller, params.get("cursor")),
    "resources/read": lambda caller, params, _: resources.read(caller, params["uri"]),
    "prompts/list": lambda caller, params, _: prompts.listed(caller),
    "prompts/get": lambda caller, params, tools: prompts.get(
        caller, params["name"], params.get("arguments") or {}, tools=tools
    ),
    "completion/complete": lambda caller, params, _: completions.complete(caller, params["ref"], params["argument"]),
}


def look_up(caller: Caller, message: Message, version: str, tools: Collection[str], *, status: int) -> bytes:
    """The JSON of the result; raises :class:`RpcError`, with ``status`` for what the request is at fault for."""
    try:
        result = LOOK_UPS[message.method](caller, message.params, tools)
    except LoomError as error:
        raise _refusal(error, message, version, status=status) from None
    if version in MODERN_VERSIONS:
        result |= COMPLETE | (_CACHE_HINTS if message.method in CACHEABLE_METHODS else {})
    return text_of(serialize_server_result(message.method, version, result))


def _refusal(error: LoomError, message: Message, version: str, *, status: int) -> RpcError:
    data = error.to_wire()
    if isinstance(uri := message.params.get("uri"), str) and len(uri) <= resources.MOST_OF_A_URI:
        data["uri"] = mask_credentials(uri)
    if error.code is ErrorCode.NOT_FOUND:
        code = INVALID_PARAMS if version in MODERN_VERSIONS else _RESOURCE_NOT_FOUND
    elif error.code in _CODES:
        code = _CODES[error.code]
    else:
        code, status = INTERNAL_ERROR, 503
    return RpcError(code, data["message"], status=status, data=data)
