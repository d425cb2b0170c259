"""What each MCP client is to be told, so that it starts the stdio proxy (N4).

Never a credential: the proxy finds one itself.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

NAME = "loomsvc"


@dataclass(frozen=True, slots=True)
class ClientConfig:
    """The text for a client's own file, and the command that does the same where the client has one."""

    client: str
    entry: str
    syntax: str
    where: str
    text: str
    command: str | None


def _server(proxy: Sequence[str], **first: str) -> dict[str, Any]:
    return {**first, "command": proxy[0], "args": list(proxy[1:])}


def _json(body: Any) -> str:
    return json.dumps(body, ensure_ascii=False, indent=2)


def _claude(entry: str, proxy: Sequence[str]) -> ClientConfig:
    return ClientConfig(
        "claude",
        entry,
        "json",
        ".mcp.json in the folder that Claude Code works in",
        _json({"mcpServers": {NAME: _server(proxy, type="stdio")}}),
        f"claude mcp add {NAME} -- {shlex.join(proxy)}",
    )


def _codex(entry: str, proxy: Sequence[str]) -> ClientConfig:
    # TOML's basic strings take everything that JSON's do, save one character that JSON need not escape.
    command, arguments = (
        json.dumps(part, ensure_ascii=False).replace("\x7f", "\\u007f") for part in (proxy[0], proxy[1:])
    )
    return ClientConfig(
        "codex",
        entry,
        "toml",
        "~/.codex/config.toml",
        f"[mcp_servers.{NAME}]\ncommand = {command}\nargs = {arguments}",
        f"codex mcp add {NAME} -- {shlex.join(proxy)}",
    )


def _cursor(entry: str, proxy: Sequence[str]) -> ClientConfig:
    where = ".cursor/mcp.json in the project's folder, or ~/.cursor/mcp.json for all projects"
    return ClientConfig("cursor", entry, "json", where, _json({"mcpServers": {NAME: _server(proxy)}}), None)


def _vscode(entry: str, proxy: Sequence[str]) -> ClientConfig:
    one = json.dumps({"name": NAME, **_server(proxy, type="stdio")}, ensure_ascii=False)
    return ClientConfig(
        "vscode",
        entry,
        "json",
        ".vscode/mcp.json in the workspace's folder",
        _json({"servers": {NAME: _server(proxy, type="stdio")}}),
        f"code --add-mcp {shlex.quote(one)}",
    )


def _generic(entry: str, proxy: Sequence[str]) -> ClientConfig:
    where = "the file in which the client keeps its MCP servers"
    return ClientConfig("generic", entry, "json", where, _json({"mcpServers": {NAME: _server(proxy)}}), None)


_CLIENTS: dict[str, tuple[str, Callable[[str, Sequence[str]], ClientConfig]]] = {
    "claude": ("agent_ide", _claude),
    "codex": ("codex", _codex),
    "cursor": ("agent_ide", _cursor),
    "vscode": ("agent_ide", _vscode),
    "generic": ("agent_ide", _generic),
}
CLIENTS = tuple(_CLIENTS)


def client_config(client: str, *, program: Sequence[str], folder: str) -> ClientConfig:
    """How ``client`` starts the proxy: ``program`` is what runs loomsvc, ``folder`` the service's data folder."""
    entry, make = _CLIENTS[client]
    option = [] if entry == "agent_ide" else ["--entry", entry]
    return make(entry, [*program, "mcp_proxy", *option, "--data", folder])
