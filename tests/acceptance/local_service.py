"""Real processes: services on data folders of their own, and the commands that speak to them."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
LOOMS = ROOT / "tests" / "looms"
_FOREIGN = ("DATABASE_URL", "REDIS_URL", "DJANGO_SETTINGS_MODULE")


def environment(**more: str) -> dict[str, str]:
    """What a shell of an ordinary user has, with the test Looms."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("LOOM", *_FOREIGN))}
    return {**kept, "LOOM_PATHS": str(LOOMS), "COLUMNS": "200", **more}


def loomsvc(*arguments: str, timeout: float = 60, stdin: str = "", **more: str) -> subprocess.CompletedProcess[str]:
    """Run one command to its end."""
    return subprocess.run(
        [sys.executable, "manage.py", *arguments],
        cwd=ROOT,
        env=environment(**more),
        input=stdin,
        capture_output=True,
        text=True,
        timeout=timeout,
    )


#: Prompts, and what is typed at each.
Dialogue = list[tuple[str, str | Callable[[], str]]]


def at_terminal(folder: Path, arguments: list[str], dialogue: Dialogue, code: int = 0) -> str:
    """Run a command on a terminal of its own, typing each answer when its prompt has come; what was shown."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(ROOT)
        command = [sys.executable, "manage.py", *arguments, "--data", str(folder)]
        os.execve(sys.executable, command, {**environment(), "TERM": "xterm", "NO_COLOR": "1"})
    shown = ""

    def read() -> bool:
        nonlocal shown
        try:
            part = os.read(terminal, 4096)
        except OSError:  # the other side is closed
            return False
        shown += part.decode(errors="replace")
        return bool(part)

    for prompt, answer in dialogue:
        seen = len(shown)
        while prompt not in shown[seen:] and read():
            pass
        typed = answer if isinstance(answer, str) else answer()
        os.write(terminal, typed.encode() + b"\n")
    while read():
        pass
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == code, shown
    return shown


def interruptible() -> None:
    """In the child: Ctrl-C works even where the test run itself was started in the background."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@dataclass
class Up:
    """One ``loomsvc up --json`` and what it printed."""

    folder: Path
    process: subprocess.Popen[str]
    events: list[dict[str, Any]] = field(default_factory=list)

    @property
    def url(self) -> str:
        return str(self.events[-1]["url"])

    @property
    def connection(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / "connection.json").read_text())
        return found

    def command(self, *arguments: str, **more: Any) -> subprocess.CompletedProcess[str]:
        """A command on this service's data folder."""
        return loomsvc(*arguments, "--data", str(self.folder), **more)

    def json(self, *arguments: str) -> Any:
        """A command's one JSON document."""
        done = self.command(*arguments, "--json")
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout)

    def rest(self, path: str, body: Any = None) -> Any:
        """What the REST face answers to a GET, or to a POST of ``body``."""
        headers = {
            "Authorization": f"Bearer {self.connection['entries']['studio']['token']}",
            "Content-Type": "application/json",
        }
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data=data, headers=headers)
        with urllib.request.urlopen(request, timeout=20) as answer:
            return json.load(answer)

    def start(self, loom: str, given: Any) -> str:
        """Start a Run over REST; its id."""
        instance = self.events[-1]["serviceInstanceId"]
        identity = {"operationId": str(uuid.uuid4()), "serviceInstanceId": instance}
        return str(self.rest("/api/v1/runs", {"loomName": loom, "input": given, **identity})["run"]["runId"])

    def run(self, run_id: str) -> dict[str, Any]:
        found: dict[str, Any] = self.rest(f"/api/v1/runs/{run_id}")["run"]
        return found

    def until(self, run_id: str, *statuses: str, seconds: float = 20, other_than: str = "") -> dict[str, Any]:
        """The Run once it has one of the statuses, and waits for another Action than this one."""
        deadline = time.monotonic() + seconds
        while (run := self.run(run_id))["status"] not in statuses or (
            other_than and (run.get("pendingAction") or {}).get("id") == other_than
        ):
            assert time.monotonic() < deadline, run
            time.sleep(0.02)
        return run

    def until_asked(self, clients: int = 1) -> None:
        """Wait until so many clients have sent what nobody has read: the service is stopped, and reads none."""
        deadline = time.monotonic() + 30
        while self._unread() < clients:
            assert time.monotonic() < deadline, "the request never went out"
            time.sleep(0.05)

    def until_heard(self) -> None:
        """Wait until the service, which goes on now, has read all that clients have sent."""
        deadline = time.monotonic() + 30
        while self._unread():
            assert time.monotonic() < deadline, "the request was never read"
            time.sleep(0.05)

    def _unread(self) -> int:
        """Connections to the service with bytes that it has not read."""
        port = int(self.connection["url"].rpartition(":")[2])
        rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        established = (row for row in rows if row[3] == "01" and int(row[1].rpartition(":")[2], 16) == port)
        return sum(int(row[4].rpartition(":")[2], 16) > 0 for row in established)

    def stop(self, number: int = signal.SIGTERM) -> tuple[int, float]:
        """Signal it; its exit code, and seconds until it had ended."""
        began = time.monotonic()
        self.process.send_signal(number)
        return self.process.wait(30), time.monotonic() - began


class Services:
    """Starts services; all that still run are ended, each by its own pid."""

    def __init__(self) -> None:
        self.started: list[Up] = []

    def up(self, folder: Path, *arguments: str, **more: str) -> Up:
        process = subprocess.Popen(
            [sys.executable, "manage.py", "up", "--data", str(folder), "--port", "0", "--json", *arguments],
            cwd=ROOT,
            env=environment(**more),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        up = Up(folder, process)
        self.started.append(up)
        assert process.stdout is not None
        assert process.stderr is not None
        for line in process.stdout:
            up.events.append(json.loads(line))
            if up.events[-1]["event"] == "ready":
                return up
        raise AssertionError(f"loomsvc up ended: {process.stderr.read()}")

    def end(self) -> None:
        for up in self.started:
            if up.process.poll() is None:
                up.process.kill()
            up.process.communicate()


@pytest.fixture
def services() -> Iterator[Services]:
    found = Services()
    yield found
    found.end()


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """A service with the test Looms, for all tests of a file."""
    found = Services()
    yield found.up(tmp_path_factory.mktemp("data"))
    found.end()
