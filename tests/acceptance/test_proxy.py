"""``loomsvc mcp_proxy`` and ``client_config`` as programs, before a real service (N4, F19)."""

# ruff: noqa: F811 - the fixtures come from local_service
from __future__ import annotations

import asyncio
import json
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
import tomllib
import uuid
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from local_service import ROOT, Services, Up, environment, interruptible, loomsvc, service, services  # noqa: F401
from mcp import ClientSession, McpError, StdioServerParameters
from mcp.client.stdio import stdio_client

pytestmark = pytest.mark.rule("N4", "F19")

STATELESS = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
Act = Callable[[ClientSession], Awaitable[None]]


def command(folder: Path, *options: str) -> list[str]:
    return [sys.executable, "manage.py", "mcp_proxy", "--data", str(folder), *options]


def drive(argv: list[str], errors: Path, act: Act) -> None:
    """Have the official client start ``argv`` and do ``act``; what it said on standard error is kept."""
    parameters = StdioServerParameters(command=argv[0], args=argv[1:], cwd=str(ROOT), env=environment())

    async def session() -> None:
        with open(errors, "w") as log:
            async with stdio_client(parameters, errlog=log) as (read, write), ClientSession(read, write) as client:
                await act(client)

    asyncio.run(asyncio.wait_for(session(), 60))


async def call(client: ClientSession, tool: str, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(tool, arguments)
    assert not result.isError, result.structuredContent
    assert result.structuredContent is not None
    return result.structuredContent


async def run_to_its_end(client: ClientSession, identity: dict[str, str], given: Any) -> dict[str, Any]:
    run = (await call(client, "run", loomName="trial", input=given, **identity))["run"]
    while run["status"] not in ("completed", "failed"):
        await asyncio.sleep(0.05)
        run = (await call(client, "get_run", runId=run["runId"]))["run"]
    return run


class Proxy:
    """The program itself, with every byte that it writes."""

    def __init__(self, folder: Path, errors: Path) -> None:
        self.errors = errors
        with open(errors, "wb") as log:
            self.process = subprocess.Popen(
                command(folder),
                cwd=ROOT,
                env=environment(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                preexec_fn=interruptible,
            )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.stdin, self.stdout = self.process.stdin, self.process.stdout

    def send(self, method: str, params: Any = None, *, id: Any = None) -> None:
        message = {"jsonrpc": "2.0", "method": method, "params": params or {}}
        self.write(json.dumps(message if id is None else {**message, "id": id}).encode() + b"\n")

    def write(self, data: bytes) -> None:
        self.stdin.write(data)
        self.stdin.flush()

    def receive(self) -> Any:
        return json.loads(self.stdout.readline())

    def ask(self, method: str, params: Any = None, *, id: Any = 1) -> Any:
        self.send(method, params, id=id)
        answer = self.receive()
        assert answer["id"] == id
        return answer

    def call(self, tool: str, *, id: Any = 1, meta: Any = None, **arguments: Any) -> None:
        self.send("tools/call", {"name": tool, "arguments": arguments, "_meta": meta or {}}, id=id)

    def open(self) -> None:
        client = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
        assert "result" in self.ask("initialize", client, id="open")
        self.send("notifications/initialized")

    def leave(self) -> float:
        """Close standard input; seconds until it ended."""
        began = time.monotonic()
        self.stdin.close()
        assert self.process.wait(10) == 0
        return time.monotonic() - began


@pytest.fixture
def proxies(tmp_path: Path) -> Iterator[Callable[[Path], Proxy]]:
    made: list[Proxy] = []

    def start(folder: Path) -> Proxy:
        made.append(Proxy(folder, tmp_path / f"proxy-{len(made)}.log"))
        return made[-1]

    yield start
    for proxy in made:
        proxy.process.kill()
        proxy.process.wait()
        proxy.stdout.close()
        if not proxy.stdin.closed:
            proxy.stdin.close()


def structured(answer: Any) -> Any:
    return answer["result"]["structuredContent"]


@pytest.mark.rule("N5", "N8", "E6")
def test_the_official_client_runs_a_loom_through_it(service: Up, tmp_path: Path) -> None:
    async def act(client: ClientSession) -> None:
        opened = await client.initialize()
        assert opened.serverInfo.name == "loomsvc"
        assert opened.instructions
        assert {"status", "run"} <= {tool.name for tool in (await client.list_tools()).tools}
        found = (await call(client, "status"))["service"]
        assert found["source"] == "agent_ide"
        assert "trial" in {loom["loomName"] for loom in (await call(client, "list_looms"))["looms"]}
        identity = {"operationId": str(uuid.uuid4()), "serviceInstanceId": found["instanceId"]}
        run = await run_to_its_end(client, identity, {"close": {"artifact": {"text": "größer 🧵"}}})
        assert run["status"] == "completed"
        assert (await call(client, "get_operation", **identity))["receipt"]["runId"] == run["runId"]

    began = time.monotonic()
    drive(command(service.folder), tmp_path / "log", act)
    assert time.monotonic() - began < 20
    assert (tmp_path / "log").read_text() == ""


@pytest.mark.rule("N1")
def test_what_client_config_prints_for_codex_starts_it_at_the_codex_entry(service: Up, tmp_path: Path) -> None:
    printed = service.command("client_config", "codex")
    assert printed.returncode == 0
    server = tomllib.loads(printed.stdout)["mcp_servers"]["loomsvc"]
    argv = [server["command"], *server["args"]]
    assert argv[-4:] == ["--entry", "codex", "--data", str(service.folder)]

    async def act(client: ClientSession) -> None:
        await client.initialize()
        found = (await call(client, "status"))["service"]
        identity = {"operationId": str(uuid.uuid4()), "serviceInstanceId": found["instanceId"]}
        run = await run_to_its_end(client, identity, {})
        assert run["execution"]["source"] == "agent_ide"

    drive(argv, tmp_path / "log", act)
    told = printed.stdout + printed.stderr + service.command("client_config", "codex", "--json").stdout
    assert all(entry["token"] not in told for entry in service.connection["entries"].values())


def test_the_official_client_shows_that_no_service_runs(tmp_path: Path) -> None:
    async def act(client: ClientSession) -> None:
        with pytest.raises(McpError, match=r"No loomsvc runs on .*`loomsvc up`"):
            await client.initialize()

    drive(command(tmp_path / "nowhere"), tmp_path / "log", act)
    assert not (tmp_path / "nowhere").exists()


def test_a_service_that_is_started_later_and_anew_is_found(
    services: Services, proxies: Callable[[Path], Proxy], tmp_path: Path
) -> None:
    folder = tmp_path / "data"
    proxy = proxies(folder)
    assert "loomsvc up" in proxy.ask("initialize")["error"]["message"]
    first = services.up(folder)
    proxy.open()
    proxy.call("status")
    assert structured(proxy.receive())["service"]["instanceId"] == first.events[-1]["serviceInstanceId"]
    first.stop()
    assert "loomsvc up" in proxy.ask("tools/list")["error"]["message"]
    second = services.up(folder)
    assert second.url != first.url
    proxy.call("status")
    instance = structured(proxy.receive())["service"]["instanceId"]
    assert instance == second.events[-1]["serviceInstanceId"]
    identity = {"operationId": str(uuid.uuid4()), "serviceInstanceId": instance}
    proxy.call("run", loomName="trial", input={}, **identity)
    assert structured(proxy.receive())["receipt"]["status"] == "accepted"
    assert proxy.leave() < 2


@pytest.mark.rule("O7", "O8", "FR-F1")
def test_a_service_killed_in_a_call_is_told_within_seconds_and_the_truth_is_found_afterwards(
    services: Services, proxies: Callable[[Path], Proxy], tmp_path: Path
) -> None:
    up = services.up(tmp_path / "data")
    proxy = proxies(up.folder)
    identity = {"operationId": str(uuid.uuid4()), "serviceInstanceId": up.events[-1]["serviceInstanceId"]}
    up.process.send_signal(signal.SIGSTOP)
    proxy.call("run", meta=STATELESS, loomName="trial", input={}, **identity)
    received: list[Any] = []
    reader = threading.Thread(target=lambda: received.append(proxy.receive()))
    reader.start()
    up.until_asked()
    up.process.kill()
    began = time.monotonic()
    reader.join(5)
    assert received, "within five seconds"
    assert time.monotonic() - began < 5
    assert "not known" in received[0]["error"]["message"]
    assert "get_operation" in received[0]["error"]["message"]
    services.up(up.folder)
    proxy.call("get_operation", meta=STATELESS, **identity)
    assert structured(proxy.receive()) == {"status": "instance_changed"}
    proxy.call("find_run", meta=STATELESS, **identity)
    assert structured(proxy.receive()) == {"run": None}, "it was never read"


def test_nothing_but_messages_stands_on_standard_output(
    service: Up, proxies: Callable[[Path], Proxy], tmp_path: Path
) -> None:
    """Among good and bad requests, answered at the same time, every byte belongs to a line that is a message."""
    proxy = proxies(service.folder)
    proxy.open()
    proxy.write(b'{\n[]\n\n \xff\n"x"\n{"jsonrpc": "2.0", "id": 1}\n')
    for number in range(40):
        proxy.call(("status", "list_looms", "nothing")[number % 3], id=f"id-{number}")
    for size in (8_193, 65_537, 1024 * 1024):
        proxy.call("get_run", id=size, runId="€" * (size // 3))
    proxy.send("notifications/nothing", {"x": "y"})
    expected = {f"id-{number}" for number in range(40)} | {8_193, 65_537, 1024 * 1024}
    answers = []
    while expected - {answer["id"] for answer in answers}:
        line = proxy.stdout.readline()
        assert line.endswith(b"\n")
        answers.append(json.loads(line))
        assert answers[-1]["jsonrpc"] == "2.0"
        assert ("result" in answers[-1]) != ("error" in answers[-1])
    assert len(answers) == 5 + len(expected)
    assert proxy.leave() < 2
    assert proxy.stdout.read() == b""
    said = proxy.errors.read_text() + json.dumps(answers)
    assert all(entry["token"] not in said for entry in service.connection["entries"].values())
    assert "Traceback" not in said


def test_it_ends_soon_after_its_input_whatever_is_under_way(
    services: Services, proxies: Callable[[Path], Proxy], tmp_path: Path
) -> None:
    up = services.up(tmp_path / "data")
    idle, waiting, unread = proxies(up.folder), proxies(up.folder), proxies(up.folder)
    idle.open()
    assert idle.leave() < 2
    unread.open()
    for number in range(30):
        unread.call("list_looms", id=number)
    first = os.read(unread.stdout.fileno(), 1)
    assert first == b"{", "the pipe is being filled, and nobody reads on"
    assert unread.leave() < 2
    up.process.send_signal(signal.SIGSTOP)
    waiting.call("status", meta=STATELESS)
    up.until_asked()
    assert waiting.leave() < 2


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_a_signal_ends_it_although_its_input_is_open(
    number: signal.Signals, service: Up, proxies: Callable[[Path], Proxy]
) -> None:
    proxy = proxies(service.folder)
    proxy.open()
    began = time.monotonic()
    proxy.process.send_signal(number)
    assert proxy.process.wait(10) == 0
    assert time.monotonic() - began < 2
    assert proxy.stdout.read() == b""
    assert proxy.errors.read_text() == ""


def test_it_starts_before_its_client_gets_impatient(service: Up, proxies: Callable[[Path], Proxy]) -> None:
    began = time.monotonic()
    proxies(service.folder).open()
    # Django's set-up alone takes longer; the goal of a second is measured on an idle machine.
    assert time.monotonic() - began < 3


def test_another_entry_than_an_agents_is_wrong_usage(tmp_path: Path) -> None:
    refused = loomsvc("mcp_proxy", "--entry", "cli", "--data", str(tmp_path))
    assert refused.returncode == 2
    assert refused.stdout == ""
    assert "codex" in refused.stderr


def test_the_command_that_a_client_offers_is_the_same_as_its_file(tmp_path: Path) -> None:
    folder = tmp_path / "with space"
    printed = json.loads(loomsvc("client_config", "claude", "--json", "--data", str(folder)).stdout)
    server = json.loads(printed["text"])["mcpServers"]["loomsvc"]
    assert shlex.split(printed["command"]) == [
        "claude",
        "mcp",
        "add",
        "loomsvc",
        "--",
        server["command"],
        *server["args"],
    ]
    assert str(folder) in server["args"]
