"""What each client is told can be read by it, and starts the proxy (N4)."""

from __future__ import annotations

import json
import shlex
import tomllib
from typing import Any

import pytest

from apps.mcp.client_configs import CLIENTS, client_config

PROGRAM = ["/opt/my tools/loomsvc"]
FOLDERS = ["/home/me/.loomsvc", "/tmp/with space/'quotes' \"two\"", "C:\\data\\new", "/größe/🧵", "/odd\x7f\t\n"]
PLACES = {
    "claude": ("mcpServers", {"type": "stdio"}),
    "codex": ("mcp_servers", {}),
    "cursor": ("mcpServers", {}),
    "vscode": ("servers", {"type": "stdio"}),
    "generic": ("mcpServers", {}),
}

pytestmark = pytest.mark.rule("N4")


def read(syntax: str, text: str) -> Any:
    return tomllib.loads(text) if syntax == "toml" else json.loads(text)


@pytest.mark.parametrize("folder", FOLDERS)
@pytest.mark.parametrize("client", CLIENTS)
def test_a_clients_own_parser_reads_the_proxys_command(client: str, folder: str) -> None:
    config = client_config(client, program=PROGRAM, folder=folder)
    entry = ["--entry", "codex"] if client == "codex" else []
    arguments = ["mcp_proxy", *entry, "--data", folder]
    place, first = PLACES[client]
    server = {**first, "command": PROGRAM[0], "args": arguments}
    assert read(config.syntax, config.text) == {place: {"loomsvc": server}}
    assert config.entry == ("codex" if client == "codex" else "agent_ide")
    told = shlex.split(config.command or "")
    if client in ("claude", "codex"):
        assert told == [client, "mcp", "add", "loomsvc", "--", *PROGRAM, *arguments]
    elif client == "vscode":
        assert told[:2] == ["code", "--add-mcp"]
        assert json.loads(told[2]) == {"name": "loomsvc", **server}
    else:
        assert not told


def test_every_client_says_where_it_goes() -> None:
    where = {client: client_config(client, program=PROGRAM, folder="/d").where for client in CLIENTS}
    assert where["claude"].startswith(".mcp.json")
    assert where["codex"] == "~/.codex/config.toml"
    assert where["cursor"].startswith(".cursor/mcp.json")
    assert where["vscode"].startswith(".vscode/mcp.json")


def test_a_program_of_several_words_keeps_them_in_order() -> None:
    config = client_config("generic", program=["/py", "-m", "loomsvc"], folder="/d")
    server = json.loads(config.text)["mcpServers"]["loomsvc"]
    assert [server["command"], *server["args"]] == ["/py", "-m", "loomsvc", "mcp_proxy", "--data", "/d"]
