"""Messages on standard input and output: one line each, and nothing else (N4, F19)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, BinaryIO

from anyio import to_thread
from mcp_types.jsonrpc import INVALID_REQUEST, PARSE_ERROR

from apps.core import json_text
from apps.mcp.jsonrpc import RequestId, RpcError

#: Far above what the service takes, which refuses by the request's id; a longer line is never kept.
MAX_LINE_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Line:
    """A message as it was sent.  ``raw`` is what goes on, so nothing of it is lost on the way."""

    raw: bytes
    value: dict[str, Any]

    @property
    def method(self) -> str | None:
        """``None`` in an answer to a request of the service."""
        return self.value.get("method")

    @property
    def id(self) -> RequestId | None:
        """``None`` in a notification."""
        return self.value.get("id")

    @property
    def params(self) -> dict[str, Any]:
        params = self.value.get("params")
        return params if isinstance(params, dict) else {}


def read(raw: bytes) -> Line:
    """The message of one line; raises :class:`RpcError` when it is none."""
    try:
        value = json_text.parse(raw)
    except json_text.NotJson as error:
        raise RpcError(PARSE_ERROR, error.issue.suggestion) from None
    if not isinstance(value, dict):
        raise RpcError(INVALID_REQUEST, "Send one JSON-RPC message a line; batches are not taken.")
    request_id = value.get("id")
    if "id" in value and not (isinstance(request_id, str) or type(request_id) is int):
        raise RpcError(INVALID_REQUEST, "Send `id` as a string or an integer.")
    is_answer = request_id is not None and ("result" in value or "error" in value)
    if not isinstance(value.get("method"), str) and not (is_answer and "method" not in value):
        raise RpcError(INVALID_REQUEST, "Send `method` as a string.", request_id=request_id)
    return Line(raw, value)


def on_one_line(text: bytes) -> bytes:
    """JSON without its line breaks, which are white space wherever JSON may have them."""
    return text.replace(b"\r", b" ").replace(b"\n", b" ")


async def read_lines(file: BinaryIO, *, most: int = MAX_LINE_BYTES) -> AsyncIterator[bytes | None]:
    """The lines of ``file`` that hold anything, until it ends; ``None`` for one of more than ``most`` bytes."""
    while line := await _read_line(file, most):
        if len(line) > most and not line.endswith(b"\n"):
            while line and not line.endswith(b"\n"):
                line = await _read_line(file, most)
            yield None
        elif stripped := line.strip():
            yield stripped


async def _read_line(file: BinaryIO, most: int) -> bytes:
    # In a thread: standard input may be a file or a terminal, which no event loop can wait for.
    return await to_thread.run_sync(file.readline, most + 1, abandon_on_cancel=True)


async def write_line(file: BinaryIO, message: bytes) -> None:
    """Write one message; raises ``OSError`` when nobody reads any more."""
    await to_thread.run_sync(_write, file, message + b"\n", abandon_on_cancel=True)


def _write(file: BinaryIO, data: bytes) -> None:
    file.write(data)
    file.flush()
