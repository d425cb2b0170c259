"""The revisions that are served, and what they name in common."""

from __future__ import annotations

from mcp_types import DEFAULT_NEGOTIATED_VERSION
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, LATEST_HANDSHAKE_VERSION, MODERN_PROTOCOL_VERSIONS

from apps.core.version import VERSION

#: Revisions opened by ``initialize`` (N5), oldest first.
HANDSHAKE_VERSIONS = tuple(version for version in HANDSHAKE_PROTOCOL_VERSIONS if version >= DEFAULT_NEGOTIATED_VERSION)
LATEST_HANDSHAKE = LATEST_HANDSHAKE_VERSION
#: What an ``initialize``-era request without a version header speaks.
ASSUMED_HANDSHAKE = DEFAULT_NEGOTIATED_VERSION
#: Stateless revisions, each request carrying its own version and capabilities.
MODERN_VERSIONS = MODERN_PROTOCOL_VERSIONS

VERSION_HEADER = "mcp-protocol-version"
METHOD_HEADER = "mcp-method"
NAME_HEADER = "mcp-name"
SESSION_HEADER = "mcp-session-id"

SERVER_INFO = {"name": "loomsvc", "title": "loomsvc", "version": VERSION}
#: Nothing of it is told to a client unasked: no lists that changed, no subscriptions.
CAPABILITIES = {
    "tools": {"listChanged": False},
    "resources": {"subscribe": False, "listChanged": False},
    "prompts": {"listChanged": False},
    "completions": {},
}
