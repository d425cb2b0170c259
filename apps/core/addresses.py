"""The addresses of what can be read as an MCP resource: ``loom://folder/id``."""

from __future__ import annotations

from urllib.parse import quote


def address(folder: str, identifier: str) -> str:
    """The address of one thing, every character escaped that RFC 6570 escapes."""
    return f"loom://{folder}/{quote(identifier, safe='')}"
