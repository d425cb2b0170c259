"""A whole session with a real service, then a search for every secret it held (K18, K1, K4, E6)."""

from __future__ import annotations

import base64
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
SENTINELS = {
    "LOOMSVC_SECRET_KEY": "Zq7-key/of+the?service&" + "".join(chr(97 + n % 26) for n in range(40)),
    "LOOM_LEAKY_KEY": "Lk9/secret+of&the=Loom",
    "broker": "Br0ker-pass/word+1",
    "database": "Dat4base-pass/word+2",
}
LOOM = """\
loom: leaky
title: Leaky
description: Tries to let its secret out everywhere.
settings: steps:Settings
entry: only
stages:
  only:
    state: steps:State
    initialize: steps:begin
    entry: act
    steps:
      act:
        code: steps:act
        on: {done: end}
    on: {done: end}
"""
STEPS = """\
import base64
import logging
from typing import Any
from urllib.parse import quote

from loomsvc.authoring import CodeStep, StageContext
from pydantic import BaseModel, SecretStr


class Settings(BaseModel):
    key: SecretStr


class State(BaseModel):
    note: str = ""


def begin(context: StageContext[Any]) -> State:
    return State()


def act(step: CodeStep[State]) -> str:
    key = step.settings.key.get_secret_value()
    forms = {
        "plain": key,
        "inside": f"the key is {key}, keep it",
        "base64": base64.b64encode(key.encode()).decode(),
        "url": quote(key, safe=""),
    }
    found = forms[step.input["form"]]
    step.log.info("using %s", found)
    logging.getLogger("leaky").error("using %s", found)
    match step.input["way"]:
        case "artifact":
            step.put_artifact({"deep": [found]})
        case "record":
            step.append_record({found: 1})
        case "state":
            step.update(note=found)
        case "outcome":
            return found
        case "error":
            raise ValueError(found)
    return "done"
"""


def forms(secret: str) -> Iterator[bytes]:
    """``secret`` in every form that it could be found in."""
    yield secret.encode()
    yield quote(secret, safe="").encode()
    yield json.dumps(secret)[1:-1].encode()
    for offset in range(3):
        text = base64.b64encode(bytes(offset) + secret.encode()).decode()
        inside = text[4 if offset else 0 : -4]
        yield inside.encode()
        yield inside.replace("+", "-").replace("/", "_").encode()


class Session:
    """One client of the service, keeping every byte that was answered."""

    def __init__(self, url: str, entries: dict[str, Any], instance_id: str) -> None:
        self.url, self.entries, self.instance_id = url, entries, instance_id
        self.seen = b""

    def send(self, path: str, body: Any = None, *, token: str | None = None, **headers: str) -> Any:
        data = None if body is None else json.dumps(body).encode()
        sent = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream", **headers}
        if token:
            sent["Authorization"] = f"Bearer {token}"
        request = urllib.request.Request(self.url + path, data=data, headers=sent)
        try:
            with urllib.request.urlopen(request, timeout=20) as answer:
                found, head = answer.read(), str(answer.headers)
        except urllib.error.HTTPError as error:
            found, head = error.read(), str(error.headers)
        self.seen += head.encode() + found
        return json.loads(found) if found.startswith(b"{") else None

    def tool(self, name: str, arguments: Any, entry: str = "cli") -> Any:
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": arguments}}
        door = self.entries[entry]
        return self.send(door["path"], message, token=door["token"])["result"]["structuredContent"]

    def identity(self) -> dict[str, str]:
        return {"operationId": str(uuid.uuid4()), "serviceInstanceId": self.instance_id}


def a_whole_session(session: Session) -> None:
    studio = session.entries["studio"]["token"]
    for way in ("artifact", "record", "state", "outcome", "error"):
        for form in ("plain", "inside", "base64", "url"):
            given = {"loomName": "leaky", "input": {"way": way, "form": form}, **session.identity()}
            started = session.send("/api/v1/runs", given, token=studio)["run"]
            deadline = time.monotonic() + 20
            while session.tool("get_run", {"runId": started["runId"]})["run"]["status"] not in ("completed", "failed"):
                assert time.monotonic() < deadline
                time.sleep(0.02)
            for view in ("", "/events", "/attempts", "/lineage"):
                session.send(f"/api/v1/runs/{started['runId']}{view}", token=studio)
    for entry, door in session.entries.items():
        for name in ("status", "list_looms", "list_runs", "list_artifacts"):
            session.tool(name, {}, entry)
        # A client that goes about its credential in every wrong way.
        token = door["token"]
        session.send(f"{door['path']}?token={token}", {"jsonrpc": "2.0", "id": 1, "method": "ping"}, token=token)
        session.send(f"/api/v1/runs?access_token={token}", token=studio)
        session.send(f"/api/v1/runs/{token}", token=studio)
        session.send(f"/api/v1/artifacts/{quote(token)}", token=studio)
        session.send("/api/v1/runs", {"loomName": token, "input": 1, **session.identity()}, token=studio)
        session.send("/api/v1/runs", {token: token, "operationId": token}, token=studio)
        session.send(door["path"], {"jsonrpc": "2.0", "id": 1, "method": token}, token=token)
        session.send(door["path"], {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}, token=token + "x")
        session.send("/api/v1/status", token=token[:-1])
        session.send("/api/v1/status", Authorization=f"Basic {token}", Referer=f"http://x/?{token}")
        session.send(f"/admin/?token={token}", Cookie=f"sessionid={token}")
    for path in ("/admin/login/", "/health", "/api/v1/docs", "/api/v1/openapi.json", "/nowhere"):
        session.send(path, token=studio)


@pytest.fixture
def database_url() -> Iterator[str]:
    """A database of the kind that the suite runs on, with a password; empty for SQLite."""
    given = os.environ.get("DATABASE_URL", "")
    if not given.startswith("postgres"):
        yield ""
        return
    import psycopg

    name = f"loomsvc_secrets_{os.getpid()}"
    with psycopg.connect(given, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
        try:
            parts = urlsplit(given)
            place = f"{parts.hostname}:{parts.port or 5432}/{name}"
            yield f"postgresql://{parts.username}:{quote(SENTINELS['database'], safe='')}@{place}"
        finally:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


def dump(database_url: str, folder: Path) -> bytes:
    """Everything that the database holds."""
    if not database_url:
        return "\n".join(sqlite3.connect(folder / "ledger.sqlite3").iterdump()).encode()
    import psycopg

    rows = []
    with psycopg.connect(database_url) as connection:
        for (table,) in connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall():
            rows += connection.execute(f'SELECT t::text FROM "{table}" t').fetchall()
    return "\n".join(row for (row,) in rows).encode()


@pytest.mark.rule("K18", "K1", "K4", "E6", "FR-H3", "FR-H15")
@pytest.mark.timeout(240)
def test_no_secret_is_found_after_a_whole_session(tmp_path: Path, database_url: str) -> None:
    loom = tmp_path / "looms" / "leaky"
    loom.mkdir(parents=True)
    (loom / "loom.yaml").write_text(LOOM)
    (loom / "steps.py").write_text(STEPS)
    data = tmp_path / "data"
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("LOOM", "DJANGO"))}
    environment = {
        **kept,
        **{name: value for name, value in SENTINELS.items() if name.startswith("LOOM")},
        "LOOM_PATHS": str(loom.parent),
        "LOOMSVC_LOG_LEVEL": "DEBUG",
        "LOOMSVC_EMBEDDED": "1",
        "REDIS_URL": f"redis://:{quote(SENTINELS['broker'], safe='')}@127.0.0.1:1/0",
        "DATABASE_URL": database_url,
    }
    command = [sys.executable, "manage.py", "up", "--data", str(data), "--port", "0", "--json"]
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=log)
        try:
            assert process.stdout is not None
            events = [json.loads(process.stdout.readline()) for _ in range(2)]
            assert events[-1]["event"] == "ready"
            entries = json.loads((data / "connection.json").read_text())["entries"]
            session = Session(events[-1]["url"], entries, events[-1]["serviceInstanceId"])
            a_whole_session(session)
        finally:
            process.send_signal(signal.SIGTERM)
            rest, _ = process.communicate(timeout=30)
    secrets = {**SENTINELS, "operator": events[0]["password"]}
    secrets |= {name: entry["token"].rpartition("_")[2] for name, entry in entries.items()}
    places = {
        "database": dump(database_url, data),
        "log": (tmp_path / "log").read_bytes(),
        "stdout": rest,
        "answers": session.seen,
        "releases": b"".join(file.read_bytes() for file in data.rglob("releases/**/*") if file.is_file()),
    }
    assert b"using [" in places["log"] + places["answers"], "the Loom did log"
    found = [
        (place, name)
        for place, content in places.items()
        for name, secret in secrets.items()
        if any(form in content for form in forms(secret))
    ]
    assert found == []
    # Not even a slice of a credential: 8 characters of its secret.
    for name, entry in entries.items():
        secret = entry["token"].rpartition("_")[2]
        for start in range(len(secret) - 8):
            assert all(secret[start : start + 8].encode() not in content for content in places.values()), name
