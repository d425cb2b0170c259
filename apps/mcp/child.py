"""A service of one's own as a child process, for as long as a block lasts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from apps.core import conf

_START_SECONDS = 60
_STOP_SECONDS = 10
#: They would lead to a ledger, a broker or rules of somebody else's installation.
_FOREIGN = ("DATABASE_URL", "REDIS_URL", "LOOMSVC_DATA", "LOOMSVC_EMBEDDED", "DJANGO_SETTINGS_MODULE")
LOG_FILE = "up.log"


class DidNotStart(Exception):
    """The service ended, or said nothing for too long; the message names its log."""


@dataclass(frozen=True)
class Started:
    """A service that takes requests; ``operator`` is (name, password) if its start made one."""

    url: str
    operator: tuple[str, str] | None


@contextmanager
def service(folder: Path, *, environment: Mapping[str, str]) -> Iterator[Started]:
    """Start ``loomsvc up`` on ``folder`` at any free port, and stop it when the block ends."""
    log = folder / LOG_FILE
    inherited = {name: value for name, value in os.environ.items() if name not in _FOREIGN}
    path = os.pathsep.join(filter(None, [str(conf.REPOSITORY), os.environ.get("PYTHONPATH")]))
    with open(log, "ab") as errors:
        process = subprocess.Popen(  # noqa: S603 (our own program)
            [sys.executable, "-m", "loomsvc", "up", "--data", str(folder), "--port", "0", "--json"],
            env={**inherited, **environment, "PYTHONPATH": path},
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
    try:
        yield _await_ready(process, log)
    finally:
        process.terminate()
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        assert process.stdout is not None
        process.stdout.close()


def _await_ready(process: subprocess.Popen[str], log: Path) -> Started:
    assert process.stdout is not None
    operator: tuple[str, str] | None = None
    too_late = threading.Timer(_START_SECONDS, process.kill)
    too_late.daemon = True
    too_late.start()
    try:
        for line in process.stdout:
            event = json.loads(line)
            if event["event"] == "operator":
                operator = (event["username"], event["password"])
            elif event["event"] == "ready":
                return Started(event["url"], operator)
    finally:
        too_late.cancel()
    raise DidNotStart(f"The service did not start; {log} says why.")
