"""A service with something on every page of the console: Runs that ended, failed, wait, rest and are due."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from apps.looms.scripts import FILES, read_script
from tests.acceptance.local_service import LOOMS, ROOT, Services, Up
from tests.acceptance.scripted_agent import Client, ScriptedAgent, drive

WORDS = ROOT / "tests" / "acceptance" / "intent_words.yaml"

_BROKEN = "loom: unfinished\ntitle: Unfinished\nentry: nowhere\nstages: {}\n"
_TEXT = """# Release notes

Runs can be paused between two Steps.
The console shows what waits for a person.
"""


@dataclass(frozen=True, slots=True)
class Sample:
    """The service, who signs in, and what there is to look at."""

    up: Up
    username: str
    password: str
    waiting: str
    confirming: str
    ended: str
    failed: str
    agent: str
    artifact: str
    operation: str
    mirror: str
    releases: tuple[str, str]

    @property
    def url(self) -> str:
        return self.up.url

    def pages(self) -> dict[str, str]:
        """Every page of the console that can be looked at: name → address."""
        base = "/admin/console"
        return {
            "attention": "/admin/",
            "runs": f"{base}/runs/",
            "run-waiting": f"{base}/runs/{self.waiting}/",
            "run-confirming": f"{base}/runs/{self.confirming}/",
            "run-ended": f"{base}/runs/{self.ended}/",
            "run-failed": f"{base}/runs/{self.failed}/",
            "run-agent": f"{base}/runs/{self.agent}/",
            "bulk": f"{base}/runs/bulk/?do=cancel&scope=filter&status=open",
            "looms": f"{base}/looms/",
            "loom": f"{base}/looms/trial/",
            "loom-intent": f"{base}/looms/intent/",
            "releases": f"{base}/looms/notes/releases/?from={self.releases[0]}&to={self.releases[1]}",
            "artifacts": f"{base}/artifacts/",
            "artifact": f"{base}/artifacts/one/?id={quote(self.artifact, safe='')}",
            "mirrors": f"{base}/mirrors/",
            "mirror": f"{base}/mirrors/{self.mirror}/?scope=all&project=default",
            "agents": f"{base}/agents/",
            "models": f"{base}/models/",
            "workers": f"{base}/health/",
            "access": f"{base}/access/",
            "audit": f"{base}/audit/",
            "operation": f"{base}/audit/operation/?id={self.operation}",
            "rows": f"{base}/rows/",
            "refused": f"{base}/runs/{uuid.UUID(int=0)}/",
        }


@contextmanager
def sample_service(folder: Path, *, whole: bool = True) -> Iterator[Sample]:
    """Started on ``folder``, filled, and ended afterwards.

    ``whole``: a Run of ``intent`` is brought to its end by a scripted agent, half a minute.
    """
    services = Services()
    own, wishes = folder / "looms", (folder / "wishes").resolve()
    wishes.mkdir()
    _write(own / "unfinished", _BROKEN, "")
    _write(own / "notes", _notes("Notes"), "def go(step):\n    return 'done'\n")
    try:
        allowed = {"LOOM_INTENT_ROOTS": str(wishes), "LOOM_INTENT_COMMANDS": "python"}
        up = services.up(folder / "data", LOOM_PATHS=f"{LOOMS}:{own}", **allowed)
        yield _filled(up, own, wishes, whole=whole)
    finally:
        services.end()


def _write(folder: Path, graph: str, code: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "loom.yaml").write_text(graph)
    if code:
        (folder / "steps.py").write_text(code)


def _notes(title: str) -> str:
    return (
        f"loom: notes\ntitle: {title}\ndescription: Keeps notes.\nentry: only\nstages:\n  only:\n    entry: go\n"
        '    steps:\n      go: {code: "steps:go", on: {done: end}}\n    on: {done: end}\n'
    )


def _by_agents(up: Up, wishes: Path, *, whole: bool) -> str:
    """A Run of ``intent`` that ended, and one that waits for its first agent; their id is the latter's, if
    there is no other."""
    runs: list[str] = []
    for name in ("finished", "waiting"):
        (wishes / name).mkdir()
    script, problems = read_script(WORDS.read_text(encoding="utf-8"), WORDS.name)
    assert script is not None, problems
    for path, content in script.files.items():
        (wishes / "finished" / path).parent.mkdir(parents=True, exist_ok=True)
        (wishes / "finished" / path).write_text(content, encoding="utf-8")
    given = json.loads(json.dumps(script.input).replace(FILES, str(wishes / "finished")))

    async def act(client: Client) -> None:
        if whole:
            runs.append(await client.start("intent", given))
            await ScriptedAgent(client, script).finish(runs[-1])
        wish = {"wish": "A command that counts the words of a text.", "folder": str(wishes / "waiting")}
        runs.append(await client.start("intent", wish))
        await client.at_rest(runs[-1])

    entry = up.connection["entries"]["agent_ide"]
    drive(up.url + entry["path"], entry["token"], act)
    return runs[0]


def _filled(up: Up, own: Path, wishes: Path, *, whole: bool) -> Sample:
    operator = next(event for event in up.events if event["event"] == "operator")
    agent = _by_agents(up, wishes, whole=whole)
    waiting = up.start("review", {"title": "Release notes", "text": _TEXT, "audience": "operators"})
    confirming = up.start("trial", {"do": [{"ending": "again", "seconds": 0.2}, {"ending": "confirm"}]})
    first = up.start("trial", {"do": [{"artifact": {"title": "Release notes", "text": _TEXT}}]})
    up.until(first, "completed")
    ended = up.start("trial", {
        "do": [
            {"ending": "again", "seconds": 0.15}, {"ending": "again", "failures": 1, "seconds": 0.1},
            {"ending": "sleep"}, {"ending": "other"}, {"ending": "other", "seconds": 0.2, "record": "checked"},
            {"ending": "leave", "artifact": {"title": "Release notes", "text": _TEXT.replace("a person", "you")}},
        ]
    })  # fmt: skip
    failed = up.start("trial", {"do": [{"ending": "again"}, {"failures": 9, "error": "ValueError", "seconds": 0.1}]})
    notes = [up.start("notes", "1")]
    up.until(notes[0], "completed")
    _write(own / "notes", _notes("Notes, better"), "def go(step):\n    step.log.info('going')\n    return 'done'\n")
    notes.append(up.start("notes", "2"))
    paused = up.start("trial", {"do": [{"ending": "confirm"}]})
    up.until(paused, "waiting")
    operation = str(uuid.uuid4())
    _operate(up, paused, "pause", operation)
    for run_id, status in ((ended, "completed"), (failed, "failed"), (waiting, "waiting"), (confirming, "waiting")):
        up.until(run_id, status)
    up.until(notes[1], "completed")
    trace = {"traceId": up.run(ended)["traceId"], "targetProject": "default"}
    mirror = up.rest("/api/v1/mirrors", trace)["mirror"]["mirrorId"]
    up.rest("/api/v1/agents", {"model": "offline", "input": "Name three looms."})
    artifacts = up.rest("/api/v1/artifacts")["artifacts"]["data"]
    return Sample(
        up=up,
        username=operator["username"],
        password=operator["password"],
        waiting=waiting,
        confirming=confirming,
        ended=ended,
        failed=failed,
        agent=agent,
        artifact=next(one["artifactId"] for one in artifacts if one["loomName"] == "trial"),
        operation=operation,
        mirror=mirror,
        releases=(up.run(notes[0])["releaseDigest"], up.run(notes[1])["releaseDigest"]),
    )


def _operate(up: Up, run_id: str, verb: str, operation_id: str) -> Any:
    body = {"operationId": operation_id, "serviceInstanceId": up.events[-1]["serviceInstanceId"]}
    return up.rest(f"/api/v1/runs/{run_id}/{verb}", body)
