"""A scaled-out service of real processes: web, workers and sweeps on PostgreSQL and Redis of its own.

Only processes that were started here are ended here, by their ids.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import psycopg
import redis

ROOT = Path(__file__).resolve().parent.parent.parent
LOOMS = ROOT / "tests" / "looms"
LEASE_SECONDS, SWEEP_SECONDS = 5, 2
#: From a fault's end until the ledger is clean again (faults.md).
RECOVERY_SECONDS = LEASE_SECONDS + SWEEP_SECONDS + 15
START_SECONDS = 40.0

_PREPARE = """
import io, json, django
from django.core.management import call_command
django.setup()
call_command("migrate", verbosity=0)
call_command("instance_open", stdout=io.StringIO())
call_command("project_create", "trials", stdout=io.StringIO())
tokens = {}
for source in ("agent_ide", "cli", "studio"):
    out = io.StringIO()
    call_command("token_create", project="trials", source=source, label="test", json=True, stdout=out)
    tokens[source] = json.loads(out.getvalue())["token"]
print(json.dumps(tokens))
"""

T = TypeVar("T")


def eventually(look: Callable[[], T], *, within: float, what: str) -> T:
    """What ``look`` returns once it is true; fails with ``what`` and the last value after ``within`` seconds."""
    deadline = time.monotonic() + within
    while True:
        found = look()
        if found:
            return found
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {within:g} s: {what} (last seen: {found!r})")
        time.sleep(0.05)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@dataclass
class Process:
    """A started process and its log."""

    name: str
    popen: subprocess.Popen[bytes]
    log: Path

    @property
    def pid(self) -> int:
        return self.popen.pid

    @property
    def alive(self) -> bool:
        return self.popen.poll() is None

    def text(self) -> str:
        return self.log.read_text(errors="replace")

    def send(self, number: signal.Signals) -> None:
        self.popen.send_signal(number)

    def ended(self, *, within: float) -> int:
        """Its exit status, once it has ended by itself."""
        try:
            return self.popen.wait(within)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.name} did not end within {within:g} s:\n{self.text()[-4000:]}") from None

    def said(self, text: str, *, within: float = START_SECONDS) -> None:
        """Wait until its log holds ``text``."""

        def look() -> bool:
            assert self.alive, f"{self.name} ended with {self.popen.returncode}:\n{self.text()[-4000:]}"
            return text in self.text()

        eventually(look, within=within, what=f"{self.name} says {text!r}")

    def children(self) -> list[int]:
        """Its children's pids, from the kernel."""
        with contextlib.suppress(OSError):
            found = Path(f"/proc/{self.pid}/task").glob("*/children")
            return sorted(int(pid) for file in found for pid in file.read_text().split())
        return []

    def kill(self) -> None:
        """End it, as a power cut would; the kernel ends a prefork worker's children with it."""
        if self.alive:
            self.popen.kill()
        self.popen.wait(10)


@dataclass(frozen=True)
class Reply:
    """An HTTP answer."""

    status: int
    body: Any


@dataclass
class Client:
    """One client at one web process: MCP Tools at ``/internal/mcp`` and, as an agent, at ``/mcp``; and REST."""

    port: int
    tokens: Mapping[str, str]

    def http(self, method: str, path: str, body: Any = None, *, source: str = "studio") -> Reply:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        headers = {
            "Authorization": f"Bearer {self.tokens[source]}",
            "Accept": "application/json, text/event-stream" if path.endswith("/mcp") else "application/json",
            "Content-Type": "application/json",
            "MCP-Protocol-Version": "2025-11-25",
        }
        try:
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            response = connection.getresponse()
            raw = response.read()
            return Reply(response.status, json.loads(raw) if raw else None)
        finally:
            connection.close()

    def tool(self, name: str, /, **arguments: Any) -> dict[str, Any]:
        """Call a Tool; its structured content, an error's included."""
        return self._call("/internal/mcp", "cli", name, arguments)

    def as_agent(self, name: str, /, **arguments: Any) -> dict[str, Any]:
        """Call a Tool as an agent does."""
        return self._call("/mcp", "agent_ide", name, arguments)

    def _call(self, path: str, source: str, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": arguments}}
        reply = self.http("POST", path, message, source=source)
        assert reply.status == 200, reply
        assert "result" in reply.body, reply.body
        content: dict[str, Any] = reply.body["result"]["structuredContent"]
        return content

    def instance_id(self) -> str:
        return str(self.tool("status")["service"]["instanceId"])

    def operate(self, name: str, /, **arguments: Any) -> dict[str, Any]:
        """An Operation under a fresh identity, unless one is given."""
        identity = {"operationId": str(uuid.uuid4())}
        if "serviceInstanceId" not in arguments:
            identity["serviceInstanceId"] = self.instance_id()
        return self.tool(name, **{**identity, **arguments})

    def start(self, loom: str = "trial", /, **plan: Any) -> str:
        """Start a Run; its id."""
        result = self.operate("run", loomName=loom, input=plan)
        assert "error" not in result, result
        return str(result["run"]["runId"])

    def run(self, run_id: str) -> dict[str, Any]:
        found: dict[str, Any] = self.tool("get_run", runId=run_id)["run"]
        return found

    def reaches(self, run_id: str, *statuses: str, within: float = RECOVERY_SECONDS) -> dict[str, Any]:
        """The Run once it is in one of ``statuses``."""
        latest: dict[str, Any] = {}

        def look() -> bool:
            latest.update(self.run(run_id))
            return latest["status"] in statuses

        try:
            eventually(look, within=within, what=f"Run {run_id} is {' or '.join(statuses)}")
        except AssertionError as error:
            raise AssertionError(f"{error}: {latest}") from None
        return latest

    def attempts(self, run_id: str) -> list[dict[str, Any]]:
        """The Run's attempts at Code Steps (initializers left out), in order."""
        reply = self.http("GET", f"/api/v1/runs/{run_id}/attempts")
        assert reply.status == 200, reply
        return [attempt for attempt in reply.body["attempts"] if attempt["kind"] != "initialize"]

    def events(self, run_id: str) -> list[str]:
        reply = self.http("GET", f"/api/v1/runs/{run_id}/events")
        assert reply.status == 200, reply
        return [event["type"] for event in reply.body["events"]]


@dataclass
class Broker:
    """A redis-server of the test's own, with a password."""

    password: str
    port: int
    process: Process

    @property
    def url(self) -> str:
        return f"redis://:{self.password}@127.0.0.1:{self.port}/0"

    @property
    def client(self) -> redis.Redis:
        return redis.Redis(port=self.port, password=self.password, decode_responses=False)


@contextlib.contextmanager
def own_broker(folder: Path) -> Iterator[Broker]:
    """Start a redis-server on a free port, and end it."""
    password, port = f"broker-{secrets.token_hex(16)}", free_port()
    log = folder / f"redis-{port}.log"
    with log.open("wb") as out:
        popen = subprocess.Popen(
            ["redis-server", "-"], stdin=subprocess.PIPE, stdout=out, stderr=out, cwd=folder, start_new_session=True
        )
    assert popen.stdin is not None
    settings = [f"port {port}", "bind 127.0.0.1", f"requirepass {password}", 'save ""', "enable-debug-command yes"]
    popen.stdin.write("\n".join(settings).encode())
    popen.stdin.close()
    process = Process("redis-server", popen, log)
    broker = Broker(password, port, process)
    try:
        process.said("Ready to accept connections")
        yield broker
    finally:
        process.kill()


@contextlib.contextmanager
def own_database(server_url: str) -> Iterator[str]:
    """Create a database on the server; its URL; dropped afterwards."""
    name = f"loomsvc_acceptance_{os.getpid()}_{secrets.token_hex(3)}"
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}"')
    try:
        yield urlsplit(server_url)._replace(path=f"/{name}").geturl()
    finally:
        with psycopg.connect(server_url, autocommit=True) as connection:
            connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')


@dataclass
class Deployment:
    """A migrated database, a broker, credentials, and whatever processes a test starts."""

    folder: Path
    database_url: str
    broker: Broker
    tokens: dict[str, str] = field(default_factory=dict)
    processes: list[Process] = field(default_factory=list)
    webs: list[Client] = field(default_factory=list)

    @property
    def looms(self) -> Path:
        """The folder of this deployment's own copies of the test Looms."""
        return self.folder / "looms"

    def environment(self, **more: str) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "VIRTUAL_ENV") if name in os.environ}
        return {
            **kept,
            "PYTHONPATH": str(ROOT),
            "PYTHONPYCACHEPREFIX": str(self.folder / "bytecode"),  # compiled once, not at each start
            "PYTHONUNBUFFERED": "1",
            "DJANGO_SETTINGS_MODULE": "loomsvc.settings.test",
            "DATABASE_URL": self.database_url,
            "REDIS_URL": self.broker.url,
            "LOOMSVC_DATA": str(self.folder / "data"),
            "LOOM_PATHS": str(self.looms),
            "LOOMSVC_LEASE_SECONDS": str(LEASE_SECONDS),
            "LOOMSVC_SWEEP_SECONDS": str(SWEEP_SECONDS),
            **more,
        }

    def command(self, *arguments: str) -> str:
        """Run a management command to its end; what it printed."""
        return self._run([sys.executable, "manage.py", *arguments])

    def _python(self, source: str) -> str:
        return self._run([sys.executable, "-c", source])

    def _run(self, arguments: Sequence[str]) -> str:
        done = subprocess.run(
            arguments, cwd=ROOT, env=self.environment(), capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def spawn(self, name: str, arguments: Sequence[str], **environment: str) -> Process:
        log = self.folder / f"{name}-{len(self.processes)}.log"
        with log.open("wb") as out:
            popen = subprocess.Popen(
                arguments, cwd=ROOT, env=self.environment(**environment), stdin=subprocess.DEVNULL,
                stdout=out, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
        process = Process(name, popen, log)
        self.processes.append(process)
        return process

    def web(self, **environment: str) -> Client:
        """Start one web process; a client of it, once it answers."""
        port = free_port()
        server = ["-m", "uvicorn", "loomsvc.asgi:application", "--host", "127.0.0.1", "--port", str(port)]
        process = self.spawn("web", [sys.executable, *server, "--no-access-log"], **environment)
        process.said("Uvicorn running on")
        return Client(port, self.tokens)

    def worker(self, *, pool: str = "prefork", slots: int = 2, level: str = "INFO", **environment: str) -> Process:
        """Start a Celery worker; returns when it takes messages."""
        process = self.worker_unready(pool=pool, slots=slots, level=level, **environment)
        process.said(" ready.")
        return process

    def worker_unready(self, *, pool: str, slots: int, level: str, **environment: str) -> Process:
        command = [sys.executable, "-m", "celery", "-A", "loomsvc.celery", "worker", "--pool", pool]
        options = ["--concurrency", str(slots), "--loglevel", level, "--hostname", f"w{secrets.token_hex(4)}@%h"]
        options += ["--without-mingle", "--without-gossip", "--without-heartbeat"]
        return self.spawn(f"worker-{pool}", [*command, *options], LOOMSVC_LOG_LEVEL=level, **environment)

    def sweep(self, **environment: str) -> Process:
        return self.spawn("sweep", [sys.executable, "manage.py", "sweep"], **environment)

    def prepare(self) -> None:
        """Migrate, open an instance and make credentials, in one process: each start costs a second."""
        made = json.loads(self._python(_PREPARE).splitlines()[-1])
        self.tokens.update(made)

    def kill_since(self, number: int) -> None:
        """End the processes that were started after the first ``number``: a ledger outlives any of them."""
        late = self.processes[number:]
        del self.processes[number:]
        for process in late:
            process.kill()

    def effects(self, name: str) -> Path:
        """Where Steps are to leave a line for each time that they ran."""
        return self.folder / f"effects-{name}"

    def sql(self, statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.database_url, autocommit=True) as connection:
            cursor = connection.execute(statement, parameters)
            return cursor.fetchall() if cursor.description else []


@contextlib.contextmanager
def deployed(folder: Path) -> Iterator[Deployment]:
    """A migrated deployment with an open instance and credentials; no process runs yet."""
    with own_database(os.environ["TEST_DATABASE_URL"]) as url, own_broker(folder) as broker:
        deployment = Deployment(folder, url, broker)
        shutil.copytree(LOOMS, deployment.looms)
        try:
            deployment.prepare()
            yield deployment
        finally:
            deployment.kill_since(0)


def lines(effects: Path) -> list[list[str]]:
    """``[run, step/visit, attempt, pid]`` of each time that a Step ran."""
    return [line.split() for line in effects.read_text().splitlines()] if effects.exists() else []
