"""The demo: a fresh service, the official MCP client, one Loom over a real folder, and what came of it."""

from __future__ import annotations

import os
import sys
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from apps.access.services.local import CONNECTION_FILE, read_connection
from apps.mcp import child, official, views
from apps.mcp.client import connect
from apps.mcp.following import View, follow
from apps.mcp.terminal import commands, facts, plain
from apps.mcp.timeline import timeline

LOOM = "inventory"
ENTRY = "agent_ide"
#: Rows of each list in the report that are shown.
_SHOWN = 5
_RULE_CELLS = 80
_USUAL_ADDRESS = "http://127.0.0.1:8765"


def demonstrate(*, subject: Path, data: Path, console: Console) -> bool:
    """Run the Loom over ``subject`` with a service on ``data``; whether the Run completed.

    Raises :class:`~apps.core.errors.LoomError` for a refusal and :class:`~apps.mcp.child.DidNotStart`.
    """
    began = time.monotonic()
    _heading(console, "1", "A service on a fresh data folder")
    # Only this folder, unless the operator has said which ones may be looked at.
    roots = os.environ.get("LOOM_INVENTORY_ROOTS", str(subject))
    with child.service(data, environment={"LOOM_INVENTORY_ROOTS": roots}) as started:
        console.print(f"Ready at {started.url} after {time.monotonic() - began:.1f} s: web server, worker and ledger.")
        connection = read_connection(data)
        assert connection is not None
        entry = connection["entries"][ENTRY]
        with official.session(started.url + entry["path"], entry["token"]) as client:
            view = _run(client, subject, console)
            _show(client, data, view, console)
    _go_on(console, data, started.operator)
    console.print(Text(f"\nAll of it took {time.monotonic() - began:.1f} s.", style="dim"))
    return bool(view["status"] == "completed")


def _run(client: official.OfficialClient, subject: Path, console: Console) -> View:
    _heading(console, "2", "The official MCP client connects to /mcp")
    tools = client.tools()
    console.print(f"Revision {client.opened.protocolVersion}, {len(tools)} Tools: {', '.join(tools[:6])}, …")
    console.print(views.looms(client.call("list_looms", {})))

    _heading(console, "3", f"It runs {LOOM} over {plain(subject)}")
    instance_id = client.call("status", {})["service"]["instanceId"]
    # Every size counts as large, so that the report names the biggest files of any folder.
    request = {
        "loomName": LOOM,
        "input": {"folder": str(subject), "large_bytes": 1},
        "operationId": str(uuid.uuid4()),
        "serviceInstanceId": instance_id,
    }
    result = client.call("run", request)
    console.print(Text.assemble("Operation ", result["receipt"]["operationId"], ": ", result["receipt"]["status"]))
    run_id = result["run"]["runId"]
    return follow(client, run_id, console=console, answering=lambda view: None, submit=lambda view, answer: view)


def _show(client: official.OfficialClient, data: Path, view: View, console: Console) -> None:
    _heading(console, "4", "What happened when")
    with connect(data, entry=ENTRY) as service:
        console.print(timeline(service.attempts(view["runId"])))
    if view["status"] != "completed":
        console.print(views.run(view))
        return
    _heading(console, "5", "The Artifact it filed")
    for artifact_id in view["results"]["artifactIds"]:
        console.print(_report(client.call("get_artifact", {"artifactId": artifact_id})["artifact"]))


def _report(artifact: Mapping[str, Any]) -> RenderableType:
    report = artifact["data"]
    about = facts(
        [
            ("Artifact", f"{artifact['loomName']}/{artifact['stageName']}, revision {artifact['revision']}"),
            ("files", f"{report['files']:,} with {_size(report['bytes'])}; {report['skipped']:,} skipped"),
            ("duplicates", f"{_size(report['wasted_bytes'])} in {len(report['duplicates'])} sets of equal files"),
        ]
    )
    biggest = _list("Biggest files", [(file["size"], file["path"]) for file in report["large"]])
    doubled = _list(
        "Most wasteful duplicates",
        [
            (group["size"] * (len(group["paths"]) - 1), f"{len(group['paths'])} × {group['paths'][0]}")
            for group in report["duplicates"]
        ],
    )
    return Group(about, *biggest, *doubled)


def _list(title: str, rows: list[tuple[int, str]]) -> list[RenderableType]:
    if not rows:
        return []
    grid = Table.grid(padding=(0, 2))
    grid.add_column(justify="right")
    grid.add_column(overflow="fold")
    for size, name in rows[:_SHOWN]:
        grid.add_row(_size(size), plain(name))
    return [Text(f"\n{title}", style="bold"), grid]


def _size(number: float) -> str:
    for unit in ("bytes", "kB", "MB"):
        if number < 1000:
            return f"{number:.0f} {unit}" if unit == "bytes" else f"{number:.1f} {unit}"
        number /= 1000
    return f"{number:.1f} GB"


def _go_on(console: Console, data: Path, operator: tuple[str, str] | None) -> None:
    program = _program()
    _heading(console, "→", "How to go on")
    console.print("The service is stopped; its data folder is kept. Start it again on what you have just seen:")
    console.print(commands(f"{program} up --data {data}"))
    sign_in = f"{operator[0]} / {operator[1]}  (shown this once)" if operator else "as before"
    console.print(
        facts(
            [
                ("admin", f"{_USUAL_ADDRESS}/admin/  sign in: {sign_in}"),
                ("your agent", f"{_USUAL_ADDRESS}/mcp  as a Streamable HTTP server, with the header"),
                ("", f"Authorization: Bearer TOKEN, the token of entries.agent_ide in {data / CONNECTION_FILE}"),
                ("from here", f"{program} list_runs --data {data}"),
                ("your own", f"make up, or {program} up, keeps a service in .loomsvc"),
                ("write a Loom", "docs/tutorial/first-loom.md"),
            ]
        )
    )


def _program() -> str:
    """How this was started, as a command to copy."""
    called = Path(sys.argv[0])
    return sys.argv[0] if called.name == "loomsvc" else f"{sys.executable} -m loomsvc"


def _heading(console: Console, number: str, title: str) -> None:
    console.print("")
    console.print(Rule(Text(f"{number} {title}", style="bold"), align="left"), width=min(console.width, _RULE_CELLS))
