"""The product's web application, except that each MCP Entry also has the Tools that the suite calls."""

from __future__ import annotations

from typing import Any

from loomsvc.asgi import application as product  # isort: skip (sets Django up)
from apps.core.caller import Source
from apps.core.endpoints import Endpoint, tools_for
from apps.mcp.asgi import entry_applications
from apps.mcp.interacting import INTERACTIONS
from tests.conformance import fixtures


def _tools(source: Source) -> list[Endpoint[Any, Any]]:
    return [*tools_for(source), *fixtures.ENDPOINTS]


_entries = entry_applications(_tools, {**INTERACTIONS, **fixtures.INTERACTIONS})


async def application(scope: Any, receive: Any, send: Any) -> None:
    entry = _entries.get(scope["path"]) if scope["type"] == "http" else None
    await (entry or product)(scope, receive, send)
