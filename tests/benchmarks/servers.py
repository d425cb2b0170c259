"""The web processes that are measured: loomsvc on a ledger of its own, and peers, under the same uvicorn settings."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from tests.acceptance.scaled import free_port, own_database

ROOT = Path(__file__).resolve().parent.parent.parent
PROGRAMS = Path(__file__).resolve().parent / "programs"
#: The Looms that only benchmarks run.
LOOMS = Path(__file__).resolve().parent / "looms"
#: What ``loomsvc up`` gives uvicorn, as far as a program of its own can be given it.
_UVICORN = ["--http", "h11", "--ws", "none", "--no-access-log", "--no-proxy-headers", "--no-server-header"]
_START_SECONDS = 60
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass
class Server:
    """A uvicorn under way, on a port of the loopback interface."""

    port: int
    process: subprocess.Popen[bytes]
    tokens: dict[str, str] = field(default_factory=dict)
    known: dict[str, str] = field(default_factory=dict)

    def cpu_seconds(self) -> float:
        """Processor time that it has used until now; what other programs do at the machine hardly changes it."""
        times = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(times[11]) + int(times[12])) / _TICKS


@contextlib.contextmanager
def uvicorn(python: str | Path, application: str, folder: Path, **environment: str) -> Iterator[Server]:
    """A server of ``application``, ready to answer; its output is shown only if it fails to start."""
    port = free_port()
    command = [python, "-m", "uvicorn", application, "--host", "127.0.0.1", "--port", str(port), *_UVICORN]
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            command, cwd=folder, env={**_environment(), **environment}, stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
        try:
            _wait(process, port, log)
            yield Server(port, process)
        finally:
            process.terminate()
            process.wait(20)


def _wait(process: subprocess.Popen[bytes], port: int, log: IO[bytes]) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while True:
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        if process.poll() is not None or time.monotonic() > deadline:
            log.seek(0)
            raise SystemExit(f"The server did not start:\n{log.read().decode(errors='replace')}")
        time.sleep(0.05)


def _environment() -> dict[str, str]:
    foreign = ("LOOM", "DATABASE_URL", "REDIS_URL", "DJANGO_SETTINGS_MODULE", "PYTHONPATH", "VIRTUAL_ENV")
    return {name: value for name, value in os.environ.items() if not name.startswith(foreign)}


@dataclass
class Program:
    """A program that answers each line with a line."""

    process: subprocess.Popen[str]

    def ask(self, line: str) -> str:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()
        return self.line()

    def line(self) -> str:
        assert self.process.stdout is not None
        found = self.process.stdout.readline()
        if not found:
            raise SystemExit("A program ended; what it says stands above.")
        return found


@contextlib.contextmanager
def asked(command: Sequence[str | Path], folder: Path, **environment: str) -> Iterator[Program]:
    """A program once it has said that it is ready."""
    process = subprocess.Popen(
        command, cwd=folder, env={**_environment(), **environment},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=sys.stderr, text=True,
    )  # fmt: skip
    try:
        found = Program(process)
        found.line()
        yield found
    finally:
        process.kill()
        process.wait(10)


@contextlib.contextmanager
def program(database_url: str, name: str) -> Iterator[Program]:
    """``programs/{name}.py`` with the product's code on a new ledger, with the Looms of the benchmarks."""
    with tempfile.TemporaryDirectory() as folder:
        environment = _product(database_url, folder, LOOM_PATHS=str(LOOMS))
        with asked([sys.executable, PROGRAMS / f"{name}.py"], ROOT, **environment) as found:
            yield found


def _product(database_url: str, folder: str, **more: str) -> dict[str, str]:
    return {
        "PYTHONPATH": str(ROOT),
        "DJANGO_SETTINGS_MODULE": "loomsvc.settings.development",
        "LOOMSVC_DATA": folder,
        "LOOM_PATHS": str(ROOT / "tests" / "looms"),
        **({"DATABASE_URL": database_url} if database_url else {}),
        **more,
    }


@contextlib.contextmanager
def ledger(server_url: str) -> Iterator[str]:
    """The URL of a database of its own at ``server_url``; an empty one stays empty, which is SQLite."""
    if not server_url:
        yield ""
        return
    with own_database(server_url) as url:
        yield url


@contextlib.contextmanager
def loomsvc(database_url: str, prepare: str, **more: str) -> Iterator[Server]:
    """The product's web process on a new ledger, once ``programs/{prepare}.py`` has filled it; no worker runs.

    What that program prints last, one JSON object of ``tokens`` and ``known`` things, comes with the server.
    """
    with tempfile.TemporaryDirectory() as folder:
        environment = _product(database_url, folder, **more)
        prepared = subprocess.run(
            [sys.executable, str(PROGRAMS / f"{prepare}.py")],
            env={**_environment(), **environment}, cwd=ROOT, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if prepared.returncode != 0:
            raise SystemExit(f"{prepare}: {prepared.stderr}")
        said = json.loads(prepared.stdout.splitlines()[-1])
        with uvicorn(sys.executable, "loomsvc.asgi:application", ROOT, **environment) as server:
            server.tokens, server.known = said["tokens"], said["known"]
            yield server


@contextlib.contextmanager
def up(database_url: str, folder: str | None = None) -> Iterator[Server]:
    """``loomsvc up``, the whole service in one process, on a new ledger or that of ``folder``.

    ``known`` has its ``serviceInstanceId``.
    """
    with tempfile.TemporaryDirectory() as new, tempfile.TemporaryFile() as log:
        folder = folder or new
        environment = {"LOOM_PATHS": str(LOOMS), **({"DATABASE_URL": database_url} if database_url else {})}
        process = subprocess.Popen(
            [sys.executable, "manage.py", "up", "--data", folder, "--port", "0", "--json"],
            cwd=ROOT, env={**_environment(), **environment},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log,
        )  # fmt: skip
        try:
            assert process.stdout is not None
            events = (json.loads(line) for line in process.stdout)
            ready = next((event for event in events if event["event"] == "ready"), None)
            if ready is None:
                log.seek(0)
                raise SystemExit(f"loomsvc up did not start:\n{log.read().decode(errors='replace')}")
            connection = json.loads((Path(folder) / "connection.json").read_text())
            tokens = {source: entry["token"] for source, entry in connection["entries"].items()}
            port = int(ready["url"].rpartition(":")[2])
            yield Server(port, process, tokens, {"serviceInstanceId": ready["serviceInstanceId"]})
        finally:
            process.terminate()
            process.wait(20)
