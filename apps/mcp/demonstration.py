"""The demo: a fresh service, the official MCP client, agents that build a small program, and what came of it."""

from __future__ import annotations

import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.markdown import Markdown
from rich.rule import Rule
from rich.text import Text

from apps.access.connection import CONNECTION_FILE, read_connection
from apps.core.errors import ErrorCode, LoomError
from apps.looms.checking.operator_settings import variable
from apps.looms.domain.answers import in_wire_form
from apps.looms.scripts import ScriptShape, filled, read_script
from apps.looms.sources import EXAMPLES
from apps.mcp import child, official, views
from apps.mcp.asking import ask
from apps.mcp.client import connect
from apps.mcp.following import View, follow
from apps.mcp.scripted_agent import ScriptedAgent
from apps.mcp.terminal import commands, facts, plain
from apps.mcp.timeline import timeline

LOOM = "intent"
ENTRY = "agent_ide"
_SCRIPT = "wordcount.yaml"
#: Where the program is built, inside the demo's data folder.
_FILES = "demo"
_RULE_CELLS = 80
_USUAL_ADDRESS = "http://127.0.0.1:8765"


@dataclass(frozen=True)
class Demo:
    """What is played: the script, and the folder that its program is built in."""

    script: ScriptShape
    files: Path

    @property
    def input(self) -> dict[str, Any]:
        given: dict[str, Any] = filled(self.script.input, self.files)
        return given

    @property
    def environment(self) -> dict[str, str]:
        """The settings of the Loom: it writes below ``files`` only, and runs nothing but Python."""
        return {variable(LOOM, name): filled(value, self.files) for name, value in self.script.settings.items()}


def prepare(data: Path) -> Demo:
    """Lay out the script's files below ``data``."""
    text = (EXAMPLES / LOOM / "tests" / _SCRIPT).read_text(encoding="utf-8")
    script, problems = read_script(text, _SCRIPT)
    assert script is not None, problems
    files = (data / _FILES).resolve()
    for path, content in script.files.items():
        (files / path).parent.mkdir(parents=True, exist_ok=True)
        (files / path).write_text(content, encoding="utf-8")
    return Demo(script, files)


def demonstrate(
    *, data: Path, console: Console, answers: Sequence[Any] | None, read: Callable[[str], str] | None
) -> bool:
    """Play the script with a service on ``data``; whether the Run completed.

    Questions are put to the person behind ``read``; ``answers`` were written beforehand, and the script's
    own are taken where there is neither.  Raises :class:`~apps.core.errors.LoomError` for a refusal and
    :class:`~apps.mcp.child.DidNotStart`.
    """
    began = time.monotonic()
    demo = prepare(data)
    _heading(console, "1", "A service on a fresh data folder")
    with child.service(data, environment=demo.environment) as started:
        console.print(f"Ready at {started.url} after {time.monotonic() - began:.1f} s: web server, worker and ledger.")
        with _client(started.url, data) as client:
            view = _run(client, demo, console, _answering(demo, console, answers, read))
            _show(client, data, view, console)
    _go_on(console, data, demo, view, started.operator)
    console.print(Text(f"\nAll of it took {time.monotonic() - began:.1f} s.", style="dim"))
    return bool(view["status"] == "completed")


@contextmanager
def _client(url: str, data: Path) -> Iterator[official.OfficialClient]:
    connection = read_connection(data)
    assert connection is not None
    entry = connection["entries"][ENTRY]
    with official.session(url + entry["path"], entry["token"]) as client:
        yield client


def _answering(
    demo: Demo, console: Console, answers: Sequence[Any] | None, read: Callable[[str], str] | None
) -> Callable[[View], Any]:
    if answers is None and read is not None:
        person = read
        return lambda view: ask(view["pendingAction"], console=console, read=person)
    left = iter(demo.script.answers if answers is None else answers)
    source = "the demo's script, for there is no terminal to ask at" if answers is None else "the file"

    def next_answer(view: View) -> Any:
        action = view["pendingAction"]
        given = next(left, None)
        if given is None:
            console.print("No answer is left for what the Run asks now.")
            return None
        console.print(_asked(action))
        answer = in_wire_form(action["kind"], given)
        console.print(Text(f"Answered from {source}: {plain(_in_short(answer))}", style="yellow"))
        return answer

    return next_answer


def _asked(action: Mapping[str, Any]) -> RenderableType:
    if action["kind"] == "confirmation":
        return Markdown(plain(action["request"]["context"]), hyperlinks=False)
    return Group(*(Text(plain(question["question"]), style="bold") for question in action["request"]))


def _in_short(answer: Any) -> str:
    if isinstance(answer, Mapping):
        return "yes" if answer.get("isConfirmed") else f"no. {answer.get('feedback', '')}".rstrip()
    return ", ".join(str(one.get("answer", "(skipped)")) for one in answer)


def _run(client: official.OfficialClient, demo: Demo, console: Console, answering: Callable[[View], Any]) -> View:
    _heading(console, "2", "The official MCP client connects to /mcp")
    tools = client.tools()
    console.print(f"Revision {client.opened.protocolVersion}, {len(tools)} Tools: {', '.join(tools[:6])}, …")
    console.print(views.looms(client.call("list_looms", {})))

    _heading(console, "3", f"It runs {LOOM}; its agents follow a script, its questions are for you")
    instance_id = client.call("status", {})["service"]["instanceId"]

    def identity() -> dict[str, str]:
        return {"operationId": str(uuid.uuid4()), "serviceInstanceId": instance_id}

    result = client.call("run", {"loomName": LOOM, "input": demo.input, **identity()})
    console.print(Text.assemble("Operation ", result["receipt"]["operationId"], ": ", result["receipt"]["status"]))
    console.print(Text.assemble("The wish: ", (plain(demo.input["wish"]), "bold")))

    def submit(view: View, answer: Any) -> None:
        of = {"runId": view["runId"], "actionId": view["pendingAction"]["id"]}
        try:
            client.call("answer_ask", {**of, "answer": answer, **identity()})
        except LoomError as refusal:
            # What a file of answers has wrong is said once, and the Run waits.
            if refusal.code is not ErrorCode.INVALID_REQUEST:
                raise
            raise LoomError(refusal.code, f"The answer was refused, and the Run waits: {refusal.message}") from None

    agent = ScriptedAgent(client, demo.script.agents, console)
    run_id = result["run"]["runId"]
    return follow(client, run_id, console=console, answering=answering, submit=submit, working=agent.work)


def _show(client: official.OfficialClient, data: Path, view: View, console: Console) -> None:
    _heading(console, "4", "What happened when")
    with connect(data, entry=ENTRY) as service:
        console.print(timeline(service.attempts(view["runId"])))
    if view["status"] != "completed":
        console.print(views.run(view))
        return
    _heading(console, "5", "The Artifacts it filed, one a Stage")
    for artifact_id in view["results"]["artifactIds"]:
        console.print(_artifact(client.call("get_artifact", {"artifactId": artifact_id})["artifact"]))


def _artifact(artifact: Mapping[str, Any]) -> RenderableType:
    heading = Text(f"{artifact['stageName']}, revision {artifact['revision']}", style="bold")
    return Group(heading, facts(list(_said(artifact["stageName"], artifact["data"]))))


def _said(stage: str, data: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    match stage:
        case "specification":
            yield "title", data["title"]
            for requirement in data["requirements"]:
                yield requirement["id"], requirement["text"]
        case "solution":
            yield "files", ", ".join(file["path"] for file in data["plan"]["files"])
            for check in data["checks"]:
                yield "check", " ".join(check["command"])
        case "implementation":
            for file in data["files"]:
                yield file["path"], f"{file['size']:,} bytes, SHA-256 {file['sha256'][:12]}…"
        case "validation":
            yield "verdict", f"{data['verdict']} in round {data['round']}"
            for check in data["checks"]:
                yield check["ended"], f"{' '.join(check['command'])}  {check['seconds']:.1f} s"
            for judgement in data["judgements"] or ():
                yield judgement["requirement"], "met" if judgement["is_met"] else "not met"


def _go_on(console: Console, data: Path, demo: Demo, view: View, operator: tuple[str, str] | None) -> None:
    program = _program()
    _heading(console, "→", "How to go on")
    console.print("The service is stopped; its data folder is kept. Start it again on what you have just seen:")
    console.print(commands(f"{program} up"))
    sign_in = f"{operator[0]} / {operator[1]}  (shown this once)" if operator else "as before"
    built = [("what was built", str(demo.input["folder"]))] if view["status"] == "completed" else []
    console.print(
        facts(
            [
                *built,
                ("admin", f"{_USUAL_ADDRESS}/admin/  sign in: {sign_in}"),
                ("your agent", f"{_USUAL_ADDRESS}/mcp  as a Streamable HTTP server, with the header"),
                ("", f"Authorization: Bearer TOKEN, the token of entries.agent_ide in {data / CONNECTION_FILE}"),
                ("the Run", f"{program} loom_graph {view['runId']} --data {data}"),
                ("all Runs", f"{program} list_runs --data {data}"),
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
