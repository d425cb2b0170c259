"""What the pages show is done: their commands run, in their order, against a real service.

Each page runs in a folder of its own with a loopback service on a free port, as its reader would;
every command must end as shown and print what is shown.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
from docs_pages import PAGES, ROOT, Block, Command, blocks, commands, differences, name_of
from docs_transcripts import Names, play

from tests.acceptance.scripted_agent import Client, drive

#: Seconds for one command, and for a service to be ready.
PATIENCE = 60
SHOWN_PORT = "8765"
TOOLS = ("bash", "curl", "jq", "perl")
SHOWN = [page for page in PAGES if any(block.language == "console" for block in blocks(page))]
#: Pages that begin with a service that runs already.
GUIDES = ROOT / "docs" / "how-to"

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(any(shutil.which(tool) is None for tool in TOOLS), reason=f"the pages use {', '.join(TOOLS)}"),
]


class Reader:
    """Someone who follows a page: a folder, a shell whose variables last, and the service they started."""

    def __init__(self, folder: Path, tools: Path) -> None:
        self.folder = folder
        self.port = _free_port()
        kept = {name: os.environ[name] for name in ("HOME", "LANG", "TMPDIR") if name in os.environ}
        self.variables = {
            **kept,
            "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONIOENCODING": "utf-8",
        }
        self.names: Names = {}
        self._service: subprocess.Popen[bytes] | None = None
        self._log = folder.parent / f"{folder.name}.log"

    def write(self, block: Block) -> None:
        assert block.file
        path = self.folder / block.file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block.text, encoding="utf-8")

    def do(self, command: Command) -> tuple[int, str]:
        """Exit code and output of a command; ``loomsvc up`` is left running and has printed what it prints."""
        text = command.text.replace(SHOWN_PORT, str(self.port))
        if text.startswith("loomsvc up"):
            code, printed = self._start(text)
        else:
            code, printed = self._run(text)
        return code, printed.replace(str(self.port), SHOWN_PORT)

    def _run(self, text: str) -> tuple[int, str]:
        state = self.folder.parent / f"{self.folder.name}.variables"
        script = f"set -a\n{text}\nlast=$?\nenv -0 > {shlex.quote(str(state))}\nexit $last\n"
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=self.folder,
            env=self.variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=PATIENCE,
            check=False,
        )
        pairs = (pair.partition("=") for pair in state.read_text(encoding="utf-8").split("\0") if pair)
        self.variables = {name: value for name, _, value in pairs if name not in ("_", "last", "SHLVL", "PWD")}
        return done.returncode, done.stdout.decode()

    def _start(self, text: str) -> tuple[int, str]:
        self.stop()
        with self._log.open("wb") as log:
            self._service = subprocess.Popen(
                [*shlex.split(text), "--port", str(self.port)],
                cwd=self.folder,
                env=self.variables,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                executable=shutil.which("loomsvc", path=self.variables["PATH"]),
            )
        ends = time.monotonic() + PATIENCE
        while time.monotonic() < ends and self._service.poll() is None:
            printed = self._log.read_text(encoding="utf-8")
            if "  next  " in printed:
                return 0, printed
            time.sleep(0.05)
        return 1, self._log.read_text(encoding="utf-8")

    def session(self, act: Callable[[Client], Coroutine[Any, Any, None]]) -> None:
        """A session of the official client at ``/mcp``."""
        connection = json.loads((self.folder / ".loomsvc" / "connection.json").read_text(encoding="utf-8"))
        entry = connection["entries"]["agent_ide"]
        drive(connection["url"] + entry["path"], entry["token"], act)

    def exchange(self, block: Block) -> None:
        """Make the calls that a transcript shows; the names of what came are variables of the shell too."""

        async def act(client: Client) -> None:
            await play(block.text, client.call, self.names)

        self.session(act)
        self.variables.update(self.names)

    def stop(self) -> None:
        if self._service is not None:
            self._service.send_signal(signal.SIGINT)
            self._service.wait(PATIENCE)
            self._service = None


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="session")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``loomsvc`` and ``python`` as they are on the path of a reader."""
    folder = tmp_path_factory.mktemp("bin")
    python = shlex.quote(sys.executable)
    for name, words in (("loomsvc", f"{python} {shlex.quote(str(ROOT / 'manage.py'))}"), ("python", python)):
        (folder / name).write_text(f'#!/bin/sh\nexec {words} "$@"\n')
        (folder / name).chmod(0o755)
    return folder


def follow(reader: Reader, page: Path) -> None:
    """Do everything that the page says, in its order."""
    for block in blocks(page):
        if block.file:
            reader.write(block)
        elif block.language == "transcript":
            reader.exchange(block)
        elif block.language == "console":
            shown = commands(block)
            for number, command in enumerate(shown, start=1):
                code, printed = reader.do(command)
                place = f"{name_of(page)}:{command.line}: {command.text}"
                may_fail = block.fails and number == len(shown)
                assert (code != 0) == may_fail, f"{place}\nended with {code}:\n{printed}"
                differs = differences(command.expected, printed)
                assert differs is None, f"{place}\n{differs}"


@pytest.fixture(scope="session")
def guided(tmp_path_factory: pytest.TempPathFactory, tools: Path) -> Iterator[Reader]:
    """A reader of the guides, whose service runs."""
    reader = Reader(tmp_path_factory.mktemp("guides"), tools)
    reader.variables["LOOM_PATHS"] = "looms"
    (reader.folder / "looms").mkdir()
    code, printed = reader.do(Command(0, "loomsvc up", ()))
    assert code == 0, printed
    yield reader
    reader.stop()


@pytest.mark.parametrize("page", [page for page in SHOWN if page.is_relative_to(GUIDES)], ids=name_of)
def test_a_guide_can_be_followed_beside_a_running_service(page: Path, guided: Reader) -> None:
    follow(guided, page)


def task_of_the_agent(reader: Reader) -> dict[str, str]:
    """A task of a Run of the Loom that the page about agents shows."""
    for block in blocks(GUIDES / "work-as-an-agent.md"):
        if block.file:
            reader.write(block)
    found: dict[str, str] = {}

    async def act(client: Client) -> None:
        run = await client.at_rest(await client.start("headline", {"text": "The harbour bridge opens again today"}))
        found.update(runId=run["runId"], callId=run["pendingAgentCall"]["id"])

    reader.session(act)
    return found


@pytest.mark.rule("A2", "A3")
def test_the_agent_that_is_shown_goes_on_where_it_was_killed(guided: Reader) -> None:
    task = task_of_the_agent(guided)

    async def begin(client: Client) -> None:
        claimed = await client.call("claim_agent_call", **task, claimId=f"agent.py {task['callId']}")
        owned = {**task, "ownerToken": claimed["ownerToken"]}
        await client.call("call_agent_tool", **owned, toolCallId="read", toolId="read_text", input={})

    guided.session(begin)
    code, printed = guided.do(Command(0, f"python agent.py {task['runId']}", ()))
    assert (code, "**The harbour bridge opens again**" in printed) == (0, True), printed

    async def look(client: Client) -> None:
        call = (await client.call("get_agent_call", **task))["agentCall"]
        assert [(one["toolCallId"], one["status"]) for one in call["receipts"]] == [
            ("read", "completed"), ("save 6", "failed"), ("save 5", "completed"),
        ]  # fmt: skip

    guided.session(look)


@pytest.mark.rule("A2")
def test_the_agent_that_is_shown_leaves_a_task_that_is_somebody_elses(guided: Reader) -> None:
    task = task_of_the_agent(guided)

    async def claim(client: Client) -> None:
        await client.call("claim_agent_call", **task, claimId="somebody else")

    guided.session(claim)
    code, printed = guided.do(Command(0, f"python agent.py {task['runId']}", ()))
    assert code != 0
    assert "claimed already" in printed
    assert "Traceback" not in printed


@pytest.mark.parametrize("page", [page for page in SHOWN if not page.is_relative_to(GUIDES)], ids=name_of)
def test_a_page_can_be_followed_from_an_empty_folder(page: Path, tmp_path: Path, tools: Path) -> None:
    (tmp_path / "reader").mkdir()
    reader = Reader(tmp_path / "reader", tools)
    try:
        follow(reader, page)
    finally:
        reader.stop()


def test_the_pages_that_must_be_followed_have_commands() -> None:
    assert {
        "README.md",
        "docs/tutorial/first-loom.md",
        "docs/how-to/connect-mcp.md",
        "docs/how-to/use-rest.md",
        "docs/how-to/search.md",
        "docs/how-to/find-what-is-wrong.md",
        "docs/how-to/work-as-an-agent.md",
    } <= {name_of(page) for page in SHOWN}
