"""Results that depend on nothing but the Entry and the revision, serialised once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from mcp.server.fastmcp.tools import Tool
from mcp_types import SERVER_INFO_META_KEY
from mcp_types.methods import serialize_server_result

from apps.mcp.jsonrpc import text_of
from apps.mcp.protocol import CAPABILITIES, HANDSHAKE_VERSIONS, MODERN_VERSIONS, SERVER_INFO

#: (method, revision) → the bytes of the result.
Listings = Mapping[tuple[str, str], bytes]

#: Members that every complete result of a stateless revision carries.
COMPLETE = {"resultType": "complete", "_meta": {SERVER_INFO_META_KEY: SERVER_INFO}}
#: Tools and instructions change with a release of the service only; a client may keep them for five
#: minutes, and only under the credential it read them with.
_CACHE_HINTS = {"ttlMs": 300_000, "cacheScope": "private"}


def _tool(tool: Tool) -> dict[str, Any]:
    assert tool.annotations is not None
    return {
        "name": tool.name,
        "title": tool.title,
        "description": tool.description,
        "inputSchema": tool.parameters,
        "outputSchema": tool.output_schema,
        "annotations": tool.annotations.model_dump(exclude_none=True),
    }


def listings_of(tools: Iterable[Tool], templates: Mapping[str, Any], instructions: str) -> Listings:
    """Both lists, ``initialize``, ``ping`` and ``server/discover`` of each revision that has them."""
    listed = {"tools": [_tool(tool) for tool in tools]}
    about = {"capabilities": CAPABILITIES, "instructions": instructions}
    results: dict[tuple[str, str], dict[str, Any]] = {}
    for version in HANDSHAKE_VERSIONS:
        results["tools/list", version] = listed
        results["resources/templates/list", version] = {**templates}
        results["initialize", version] = {"protocolVersion": version, "serverInfo": SERVER_INFO, **about}
        results["ping", version] = {}
    for version in MODERN_VERSIONS:
        modern = {**COMPLETE, **_CACHE_HINTS}
        results["tools/list", version] = {**listed, **modern}
        results["resources/templates/list", version] = {**templates, **modern}
        results["server/discover", version] = {"supportedVersions": list(MODERN_VERSIONS), **about, **modern}
    return {
        (method, version): text_of(serialize_server_result(method, version, result))
        for (method, version), result in results.items()
    }
