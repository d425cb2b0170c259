"""JSON-RPC envelopes: one message in, one result or error out, ids untouched (FR-D21)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mcp_types.jsonrpc import INVALID_PARAMS, INVALID_REQUEST, PARSE_ERROR

from apps.core import json_text

RequestId = str | int
#: Integers with more digits are not kept exactly while parsing, so they could not be echoed.
_MAX_ID = 10**100


class RpcError(Exception):
    """A JSON-RPC error with the HTTP status it goes out under."""

    def __init__(
        self,
        code: int,
        message: str,
        *,
        status: int = 400,
        data: Mapping[str, Any] | None = None,
        headers: tuple[tuple[str, str], ...] = (),
        request_id: RequestId | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.status = status
        self.data = data
        self.headers = headers
        self.request_id = request_id


@dataclass(frozen=True, slots=True)
class Message:
    """One request, or a notification where ``id`` is ``None``.  Absent ``params`` are ``{}``."""

    method: str
    params: dict[str, Any]
    id: RequestId | None

    @property
    def meta(self) -> Any:
        return self.params.get("_meta")


@dataclass(frozen=True, slots=True)
class Answer:
    """A client's answer to a request of ours; ``result`` is ``None`` where it answers with an error."""

    id: RequestId
    result: Any


def read(body: bytes) -> Message | Answer:
    """The one message that ``body`` holds; raises :class:`RpcError` (400) for anything else."""
    try:
        value = json_text.parse(body)
    except json_text.NotJson as error:
        raise RpcError(PARSE_ERROR, error.issue.suggestion) from None
    if isinstance(value, list):
        raise RpcError(INVALID_REQUEST, "Send one message a request; batches are not taken.")
    if not isinstance(value, dict):
        raise RpcError(INVALID_REQUEST, "Send a JSON-RPC 2.0 request object.")
    return _message(value)


def _message(value: dict[str, Any]) -> Message | Answer:
    request_id = _id_of(value)

    def refuse(code: int, message: str) -> RpcError:
        return RpcError(code, message, request_id=request_id)

    if value.get("jsonrpc") != "2.0":
        raise refuse(INVALID_REQUEST, 'Send `"jsonrpc": "2.0"`.')
    method = value.get("method")
    if not isinstance(method, str):
        if request_id is not None and ("result" in value or "error" in value):
            return Answer(request_id, value.get("result"))
        raise refuse(INVALID_REQUEST, "Send `method` as a string.")
    params = value.get("params")
    if params is None:
        params = {}
    if not isinstance(params, dict):
        raise refuse(INVALID_PARAMS, "Send `params` as an object.")
    for part in (params, params.get("_meta")):
        if isinstance(part, json_text.DuplicateKeys):
            raise refuse(INVALID_REQUEST, "Name each member of `params` and `_meta` once.")
    return Message(method, params, request_id)


def _id_of(value: dict[str, Any]) -> RequestId | None:
    if isinstance(value, json_text.DuplicateKeys):
        raise RpcError(INVALID_REQUEST, "Name each member of the message once.")
    if "id" not in value:
        return None
    found = value["id"]
    if isinstance(found, str) or (type(found) is int and abs(found) < _MAX_ID):
        return found
    raise RpcError(INVALID_REQUEST, "Send `id` as a string or an integer.")


def text_of(value: Any) -> bytes:
    """JSON for the wire; a lone surrogate in stored text goes out escaped rather than not at all."""
    text = json_text.dumps(value)
    try:
        return text.encode()
    except UnicodeEncodeError:
        return json.dumps(value, allow_nan=False, separators=(",", ":")).encode()


def success(request_id: RequestId, result: bytes) -> bytes:
    """The envelope of ``result``, which is JSON already."""
    return b'{"jsonrpc":"2.0","id":' + json.dumps(request_id).encode() + b',"result":' + result + b"}"


def notification(method: str, params: Mapping[str, Any]) -> bytes:
    """A message to the client that wants no answer."""
    return text_of({"jsonrpc": "2.0", "method": method, "params": params})


def request(request_id: RequestId, method: str, params: Mapping[str, Any]) -> bytes:
    """A request to the client."""
    return text_of({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params})


def failure(request_id: RequestId | None, error: RpcError) -> bytes:
    """The envelope of ``error``; a ``request_id`` that could not be read is null."""
    body: dict[str, Any] = {"code": error.code, "message": error.message}
    if error.data is not None:
        body["data"] = error.data
    return b'{"jsonrpc":"2.0","id":' + json.dumps(request_id).encode() + b',"error":' + text_of(body) + b"}"
