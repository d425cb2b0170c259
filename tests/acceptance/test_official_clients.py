"""Four official clients, each a program of its own, drive ``intent`` to its end, questions included."""

# ruff: noqa: F811 - the fixtures come from installing
from __future__ import annotations

import asyncio
import hashlib
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from installing import SOURCES, node_modules, python_2  # noqa: F401
from local_service import ROOT, Services, Up, environment
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client
from test_agents import EXAMPLES, cancel, check_results, entry, events_of, script_of

from apps.looms.scripts import ScriptShape
from tests.docs.docs_pages import blocks

#: Installing takes long, once.
pytestmark = pytest.mark.timeout(600)

Json = dict[str, Any]
OLDER, SESSIONS, STATELESS = "2025-06-18", "2025-11-25", "2026-07-28"
#: What the human says to each form: no; two things at once, so that it is shown again; and yes.
FORMS: list[Json | None] = [
    None,
    {"Who will use it?": "person", "Or in your own words": "Everybody."},
    {"Who will use it?": "person", "Skip this question": True},
    {"Confirm": True},
    {"Confirm": True},
]


@dataclass(frozen=True)
class Client:
    """A program of ``clients/`` and the revision it is to speak; those that know several are told a mode too."""

    program: str
    revision: str
    mode: str = ""


PYTHON_1, TYPESCRIPT_1 = Client("mcp_1.py", SESSIONS), Client("sdk_1.mjs", SESSIONS)
PYTHON_2 = [Client("mcp_2.py", SESSIONS, "legacy"), Client("mcp_2.py", STATELESS, "auto")]
TYPESCRIPT_2 = [
    Client("client_2.mjs", OLDER, "legacy"),
    Client("client_2.mjs", SESSIONS, "legacy"),
    Client("client_2.mjs", STATELESS, "auto"),
]


def name_of(client: Client) -> str:
    return f"{client.program} {client.revision}"


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """A service whose operator allows ``intent`` Python, and the folders beside its data folder."""
    found = Services()
    folder = tmp_path_factory.mktemp("official").resolve()
    yield found.up(folder / "data", LOOM_INTENT_ROOTS=str(folder), LOOM_INTENT_COMMANDS="python")
    found.end()


#: Has a client play a plan; what it tells of it.
Play = Callable[[Client, Json], Json]


@pytest.fixture
def play(request: pytest.FixtureRequest, up: Up, tmp_path: Path) -> Iterator[Play]:
    def play(client: Client, plan: Json) -> Json:
        for source in SOURCES.glob(f"*{Path(client.program).suffix}"):
            shutil.copy(source, tmp_path)
        if client.program.endswith(".mjs"):
            (tmp_path / "node_modules").symlink_to(request.getfixturevalue("node_modules"))
            program = "node"
        else:
            program = sys.executable if client is PYTHON_1 else request.getfixturevalue("python_2")
        (tmp_path / "plan.json").write_text(json.dumps({"mode": client.mode, "revision": client.revision, **plan}))
        done = subprocess.run(
            [program, client.program, "plan.json"],
            cwd=tmp_path,
            env=environment(),
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        told: Json = json.loads(done.stdout)
        return told

    yield play
    # What a client left behind would keep the next one from starting.
    for run in up.rest("/api/v1/runs?status=waiting")["runs"]:
        cancel(up, run["runId"])


def over_http(up: Up) -> Json:
    url, token = entry(up)
    return {"url": url, "token": token}


def over_stdio(up: Up) -> Json:
    """The program that a client is told to start."""
    servers: Json = json.loads(up.json("client_config", "generic")["text"])["mcpServers"]
    return dict(servers["loomsvc"])


@pytest.mark.rule("N4", "N5", "N6", "H4", "H5", "A8", "E3", "FR-F9")
@pytest.mark.parametrize("client", [PYTHON_1, *PYTHON_2, TYPESCRIPT_1, *TYPESCRIPT_2], ids=name_of)
def test_an_official_client_completes_intent_over_http(client: Client, up: Up, play: Play) -> None:
    told = completes_intent(client, up, play, over_http(up))
    # Clients with a session look for a stream, find none, and end what they opened.
    accepted = "application/json, text/event-stream" if client.program.endswith(".py") else "text/event-stream"
    beside = {method: (accept, status) for method, accept, status in told["beside"]}
    if client.revision == STATELESS:
        assert beside == {}
    else:
        assert beside.keys() == {"GET", "DELETE"}
        assert beside["GET"] == (accepted, 405)
        assert beside["DELETE"][1] == 204


@pytest.mark.rule("N4", "N5", "N6", "H4", "H5", "A8", "E3", "F19")
@pytest.mark.parametrize("client", [*PYTHON_2, TYPESCRIPT_1, *TYPESCRIPT_2[1:]], ids=name_of)
def test_an_official_client_completes_intent_through_the_proxy(client: Client, up: Up, play: Play) -> None:
    completes_intent(client, up, play, over_stdio(up))


def completes_intent(client: Client, up: Up, play: Play, server: Json) -> Json:
    """Have it played; what the client tells of it is what the ledger has."""
    folder = up.folder.parent / f"{name_of(client)} {'url' in server}"
    script, given = script_of(EXAMPLES / "intent" / "tests" / "wordcount.yaml", folder)
    agents = script.model_dump(include={"agents"})["agents"]
    told = play(client, {"server": server, "loom": "intent", "input": given, "agents": agents, "forms": FORMS})
    assert (told["server"], told["revision"]) == ("loomsvc", client.revision)
    assert {"run", "get_run", "interact", "claim_agent_call", "complete_agent_call"} <= set(told["tools"])
    issues = told["refused"]["error"]["validation"]["issues"]
    assert "/loomName" in {issue["path"] for issue in issues}
    check_human(told)
    check_ledger(up, told, script, Path(given["folder"]))
    return told


def check_human(told: Json) -> None:
    """Every form was shown, the two that said no answer were no answers, and the others are receipts."""
    questions, again, hinted, *confirmations = told["forms"]
    assert again == questions
    assert "Who will use it?" in questions
    assert hinted == f"“Who will use it?”: please choose an option or use your own words, not both.\n\n{questions}"
    assert len(confirmations) == 2
    declined, *given = told["interactions"]
    assert declined["presented"] == "declined"
    assert "receipt" not in declined
    assert [one["receipt"]["status"] for one in given] == ["accepted"] * 3


def check_ledger(up: Up, told: Json, script: ScriptShape, folder: Path) -> None:
    """What was filed, what is in the folder, each Step once, and each answer as one that the client's human gave."""
    run = up.run(told["run"]["runId"])
    assert run == told["run"]
    manifest = check_results(up, run, script)["implementation"]
    there = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.glob("*.*")}
    assert {file["path"]: file["sha256"] for file in manifest["files"]} == there
    events = events_of(up, run["runId"])
    steps = [f"{one['data']['stage']}.{one['data']['step']}" for one in events if one["type"] == "StepCompleted"]
    assert steps == script.expect.steps
    answered = [event["data"]["answeredBy"] for event in events if event["type"] == "ActionAnswered"]
    assert [(by["source"], by["via"]) for by in answered] == [("agent_ide", "native")] * 3


#: How often the client looks for a stream before it does without one.
LOOKS = 2


def seconds_used(up: Up) -> float:
    """Processor time of the service so far."""
    fields = Path(f"/proc/{up.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.rule("N5")
def test_the_stream_that_a_client_looks_for_neither_hangs_nor_spins(up: Up) -> None:
    url, token = entry(up)
    refusals: asyncio.Queue[httpx.Response] = asyncio.Queue()

    async def note(response: httpx.Response) -> None:
        if response.request.method == "GET":
            refusals.put_nowait(response)

    async def session() -> None:
        headers = {"authorization": f"Bearer {token}"}
        async with (
            httpx.AsyncClient(headers=headers, event_hooks={"response": [note]}) as http,
            streamable_http_client(url, http_client=http) as (read, write, _),
            ClientSession(read, write) as client,
        ):
            await client.initialize()
            for _ in range(LOOKS):
                refused = await asyncio.wait_for(refusals.get(), 10)
                assert refused.status_code == 405
                assert refused.request.headers["accept"] == "application/json, text/event-stream"
            used = seconds_used(up)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(refusals.get(), 2)
            assert seconds_used(up) - used < 0.5
            await client.send_ping()

    asyncio.run(asyncio.wait_for(session(), 60))


def inspect(node_modules: Path, up: Up, *arguments: str) -> subprocess.CompletedProcess[str]:
    """What the Inspector's command line says of the service."""
    url, token = entry(up)
    program = [str(node_modules / ".bin" / "mcp-inspector"), "--cli", url, "--transport", "http"]
    return subprocess.run(
        [*program, "--header", f"Authorization: Bearer {token}", *arguments],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.rule("N5", "N6", "E3")
def test_the_inspector_lists_the_tools_and_calls_them(node_modules: Path, up: Up) -> None:
    listed = json.loads(inspect(node_modules, up, "--method", "tools/list").stdout)["tools"]
    assert {"status", "run", "interact", "claim_agent_call"} <= {tool["name"] for tool in listed}
    assert all(tool["outputSchema"]["type"] == "object" for tool in listed)
    call = ("--method", "tools/call", "--tool-name")
    called = json.loads(inspect(node_modules, up, *call, "status").stdout)
    assert called["isError"] is False
    assert called["structuredContent"]["service"]["instanceId"] == up.connection["serviceInstanceId"]
    refused = json.loads(inspect(node_modules, up, *call, "get_run", "--tool-arg", "runId=mine").stdout)
    assert refused["isError"] is True
    assert refused["structuredContent"]["error"]["validation"]["issues"][0]["path"] == "/runId"


def shown_program(name: str, up: Up, folder: Path, *, page: str = "connect-mcp") -> None:
    """Write a program of the page into a folder from where it finds the service."""
    shown = blocks(ROOT / "docs" / "how-to" / f"{page}.md")
    (program,) = (block.text for block in shown if block.file == name)
    (folder / name).write_text(program, encoding="utf-8")
    (folder / ".loomsvc").symlink_to(up.folder)


def converse(folder: Path, command: list[str], *dialogue: tuple[str, str]) -> str:
    """Run a program to its end, typing each answer once its prompt has come; all that it printed."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with subprocess.Popen(command, cwd=folder, env=environment(), text=True, **pipes) as program:
        bound = threading.Timer(60, program.kill)
        bound.start()
        assert program.stdin is not None
        assert program.stdout is not None
        shown = ""
        for prompt, answer in dialogue:
            seen = len(shown)
            while prompt not in shown[seen:]:
                part = program.stdout.read(1)
                assert part, shown
                shown += part
            print(answer, file=program.stdin, flush=True)
        shown += program.stdout.read()
        bound.cancel()
        assert program.wait(20) == 0, shown
        return shown


#: The form is sent back empty first.
FILLED_IN = [("Confirm: ", ""), ("Feedback: ", ""), ("Confirm: ", "yes"), ("Feedback: ", "Go!")]
ASKS = {"do": [{"ending": "confirm"}]}


@pytest.mark.rule("N5", "H4", "H5")
def test_the_typescript_program_of_the_page_runs_looms_and_shows_their_forms(
    up: Up, node_modules: Path, tmp_path: Path
) -> None:
    shown_program("run_a_loom.mjs", up, tmp_path)
    (tmp_path / "node_modules").symlink_to(node_modules)
    program = ["node", "run_a_loom.mjs"]
    note = {"text": "Buy milk", "tags": ["errands"]}
    assert converse(tmp_path, [*program, "capture", json.dumps(note)]) == "completed kept\n"
    shown = converse(tmp_path, [*program, "trial", json.dumps(ASKS)], *FILLED_IN)
    assert shown.count("Go **on**?") == 2
    assert "Please say yes or no." in shown
    assert shown.endswith("completed done\n")


@pytest.mark.rule("N5", "H4", "H5")
def test_the_python_program_of_the_page_shows_the_form_of_a_waiting_run(up: Up, tmp_path: Path) -> None:
    shown_program("ask_in_place.py", up, tmp_path)
    run_id = up.start("trial", ASKS)
    up.until(run_id, "waiting")
    shown = converse(tmp_path, [sys.executable, "ask_in_place.py", run_id], *FILLED_IN)
    assert "Please say yes or no." in shown
    assert shown.endswith("accepted\n")
    up.until(run_id, "completed")


@pytest.mark.rule("B2", "B3")
def test_the_typescript_program_of_the_page_runs_a_background_agent(up: Up, node_modules: Path, tmp_path: Path) -> None:
    shown_program("describe_a_book.mjs", up, tmp_path, page="run-a-background-agent")
    (tmp_path / "node_modules").symlink_to(node_modules)
    assert converse(tmp_path, ["node", "describe_a_book.mjs"]) == "succeeded offline: Name three looms.\n"
