"""The commands of background agents: what proves a run need not stand in a command line."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser
from rich.console import Group, RenderableType
from rich.text import Text

from apps.mcp.commands import ClientCommand
from apps.mcp.terminal import data, facts, plain, status, table

Result = Mapping[str, Any]


class ProvenCommand(ClientCommand):
    """Takes ``id`` and ``session_secret`` as arguments, or out of what ``run_agent --json`` printed."""

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("id", nargs="?", help="id of run_agent")
        parser.add_argument("session_secret", nargs="?", help="session_secret of run_agent")
        parser.add_argument(
            "--from", dest="file", metavar="FILE", help="read both from what `run_agent --json` printed; - for stdin"
        )
        parser.add_argument("--json", action="store_true", help="print the structured result as one JSON document")

    def act(self, service: Any, options: Mapping[str, Any]) -> int:
        if options["file"]:
            proof = _read_proof(options["file"])
        elif options["id"] and options["session_secret"]:
            proof = {name: options[name] for name in ("id", "session_secret")}
        else:
            raise CommandError("Give the id and the session_secret, or --from FILE.", returncode=2)
        self.present(self.call(service, proof))
        return 0


def _read_proof(file: str) -> dict[str, Any]:
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
        printed = json.loads(text)
        return {name: printed[name] for name in ("id", "session_secret")}
    except (OSError, ValueError, KeyError, TypeError):
        raise CommandError(f"{file} does not hold what `run_agent --json` printed.", returncode=2) from None


def models(result: Result) -> RenderableType:
    """``list_models``."""
    rows = [
        ("yes" if model["available"] else "no key", model["id"], model["display_name"], model.get("setup_url", ""))
        for model in result["models"]
    ]
    return table(("AVAILABLE", "MODEL", "NAME", "SET UP AT"), rows, whole=("MODEL", "SET UP AT"))


def started(result: Result) -> RenderableType:
    """``run_agent``: everything there is, for the secret is not shown again."""
    names = ("id", "session_secret", "agent_session_id", "state", "program_digest")
    return facts([(name, status(result[name]) if name == "state" else result[name]) for name in names])


def agent(result: Result) -> RenderableType:
    """``agent_status`` and ``cancel_agent``."""
    usage, error = result["usage"], result["error"]
    shown: list[RenderableType] = [
        facts(
            [
                ("agent session", result["agent_session_id"]),
                ("state", status(result["state"])),
                ("error", None if error is None else f"{error['code']} ({error['reason']}): {error['message']}"),
                ("set up at", (error or {}).get("recovery", {}).get("setup_url")),
                ("requests", usage["requests"]),
                ("tokens", f"{usage['input_tokens']} in, {usage['output_tokens']} out"),
                ("tool calls", usage["tool_calls"]),
            ]
        )
    ]
    if result["output"] is not None:
        output = result["output"]
        shown.append(Text(plain(output)) if isinstance(output, str) else data(output))
    return Group(*shown)
