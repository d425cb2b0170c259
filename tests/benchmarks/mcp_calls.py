"""Clients that call one MCP Tool again and again, in either era."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tests.benchmarks.load import Answer, Connection, request_of

SESSIONS, STATELESS = "2025-11-25", "2026-07-28"
ERAS = (SESSIONS, STATELESS)
_PATH = "/mcp"
_WHO = {"name": "bench", "version": "1"}
_META = "io.modelcontextprotocol/"


def callers(
    port: int, era: str, tool: str, arguments: Mapping[str, Any], *, token: str | None = None, number: int = 8
) -> dict[Connection, bytes]:
    """``number`` kept connections, each with the request that it sends: a call of ``tool`` in ``era``.

    In the older era each has opened a session of its own.  One call has been made already, and gave no error.
    """
    every = {"MCP-Protocol-Version": era, **({"Authorization": f"Bearer {token}"} if token else {})}
    found = {}
    for _ in range(number):
        connection = Connection(port)
        call: dict[str, Any] = {"name": tool, "arguments": arguments}
        if era == SESSIONS:
            headers = {**every, **_opened(connection, port, every)}
        else:
            headers = {**every, "Mcp-Method": "tools/call", "Mcp-Name": tool}
            call["_meta"] = {
                f"{_META}protocolVersion": era, f"{_META}clientInfo": _WHO, f"{_META}clientCapabilities": {},
            }  # fmt: skip
        request = request_of(port, _PATH, _message("tools/call", call, id=1), headers)
        answer = connection.post(request)
        if answer.status != 200 or b'"isError":false' not in answer.body:
            raise RuntimeError(f"{answer.status}: {answer.body!r}")
        found[connection] = request
    return found


def call_of(port: int, tool: str, arguments: Mapping[str, Any], *, token: str | None) -> bytes:
    """A call of ``tool`` in the stateless era, which any connection can carry."""
    headers = {"MCP-Protocol-Version": STATELESS, "Mcp-Method": "tools/call", "Mcp-Name": tool}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    meta = {
        f"{_META}protocolVersion": STATELESS,
        f"{_META}clientInfo": _WHO,
        f"{_META}clientCapabilities": {},
    }
    return request_of(
        port, _PATH, _message("tools/call", {"name": tool, "arguments": arguments, "_meta": meta}, id=1), headers
    )


def structured(answer: Answer) -> dict[str, Any]:
    """What a Tool's call has returned; an error ends the measurement."""
    result = json.loads(answer.body).get("result", {})
    if answer.status != 200 or result.get("isError", True):
        raise RuntimeError(f"{answer.status}: {answer.body!r}")
    found: dict[str, Any] = result["structuredContent"]
    return found


def _opened(connection: Connection, port: int, headers: Mapping[str, str]) -> dict[str, str]:
    params = {"protocolVersion": SESSIONS, "capabilities": {}, "clientInfo": _WHO}
    answer = connection.post(request_of(port, _PATH, _message("initialize", params, id=0), headers))
    session = {"Mcp-Session-Id": answer.headers["mcp-session-id"]}
    done = connection.post(request_of(port, _PATH, _message("notifications/initialized", {}), {**headers, **session}))
    if done.status != 202:
        raise RuntimeError(f"{done.status}: {done.body!r}")
    return session


def _message(method: str, params: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": method, "params": params, **more}
