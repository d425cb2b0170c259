"""Run the suites: ``everyday`` (pure tests once, ledger tests per database), ``acceptance``, or ``chaos``.

``chaos`` has the tests of races and faults, which are in the other two with few rounds, go on for
``LOOMSVC_ROUNDS`` (200) each, at moments that ``LOOMSVC_SEED`` chooses.

PostgreSQL and Redis are taken from ``TEST_DATABASE_URL`` and ``TEST_REDIS_URL``, else from their
standard loopback ports; where they are missing, a line says what was not covered.  With
``LOOMSVC_REQUIRE_SERVICES=1`` (CI) a missing one is a failure.
"""

from __future__ import annotations

import getpass
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PURE = [
    "tests/unit",
    "tests/architecture",
    *(f"tests/docs/test_docs_{name}.py" for name in ("pages", "looms", "intent", "transcripts")),
]
LEDGER = ["tests/integration", "tests/faces"]
ACCEPTANCE = ["tests/acceptance", "tests/docs/test_docs_shown.py"]
CHAOS_LEDGER = [
    *(f"tests/integration/test_{name}_races.py" for name in ("attacks", "attacks_agent", "fork", "mirror")),
    "tests/integration/test_model_check.py",
]
CHAOS_PROCESSES = [
    *(
        f"tests/acceptance/test_scaled_out_{name}.py"
        for name in ("workers", "broker", "races", "agents", "agent_races")
    ),
    *(f"tests/acceptance/test_{name}.py" for name in ("up_crashes", "disk_full", "log_starved")),
]


def find_postgresql() -> str | None:
    import psycopg

    given = os.environ.get("TEST_DATABASE_URL")
    user = getpass.getuser()
    candidates = [given] if given else [f"postgresql://{name}@127.0.0.1:5432/postgres" for name in (user, "postgres")]
    for url in candidates:
        try:
            psycopg.connect(url, connect_timeout=3).close()
        except psycopg.Error:
            continue
        return url
    return None


def find_redis() -> str | None:
    import redis

    url = os.environ.get("TEST_REDIS_URL", "redis://127.0.0.1:6379/9")
    try:
        redis.Redis.from_url(url, socket_connect_timeout=2, socket_timeout=2).ping()
    except redis.RedisError:
        return None
    return url


@dataclass
class Suite:
    """A pytest process under way; ``log`` holds what it prints when it runs beside another one."""

    name: str
    process: subprocess.Popen[bytes]
    began: float
    log: Path | None = None

    def passed(self) -> bool:
        """Wait for its end, and show what it printed unless that was seen already."""
        code = self.process.wait()
        if self.log is not None:
            print(f"\n== {self.name}", flush=True)
            sys.stdout.buffer.write(self.log.read_bytes())
            self.log.unlink()
        took = time.monotonic() - self.began
        print(f"== {self.name}: {'passed' if code == 0 else 'FAILED'} in {took:.0f} s", flush=True)
        return code == 0


def start(name: str, paths: list[str], environment: dict[str, str] | None = None, *, beside: bool = False) -> Suite:
    """Begin a suite; ``beside``: while another one has the terminal."""
    known = {key: value for key, value in os.environ.items() if key not in ("DATABASE_URL", "REDIS_URL")}
    command = [sys.executable, "-m", "pytest", *paths, *sys.argv[2:]]
    log = None
    if beside:
        descriptor, path = tempfile.mkstemp(prefix="loomsvc-suite-")
        os.close(descriptor)
        log = Path(path)
    else:
        print(f"\n== {name}", flush=True)
    with open(log or os.devnull, "wb") as file:
        streams: Any = {"stdout": file, "stderr": subprocess.STDOUT} if log else {}
        process = subprocess.Popen(command, cwd=ROOT, env={**known, **(environment or {})}, **streams)
    return Suite(name, process, time.monotonic(), log)


def on_postgresql(services: dict[str, str]) -> dict[str, str] | None:
    """What makes PostgreSQL the ledger, where there is one."""
    return {"DATABASE_URL": services["TEST_DATABASE_URL"]} if "TEST_DATABASE_URL" in services else None


def everyday(services: dict[str, str]) -> list[bool]:
    """The pure tests, then those of the ledger on SQLite; beside both those of the ledger on PostgreSQL."""
    ledger = on_postgresql(services)
    other = start("ledger on PostgreSQL", LEDGER, ledger, beside=True) if ledger else None
    passed = [start("pure", PURE).passed(), start("ledger on SQLite", LEDGER).passed()]
    return [*passed, other.passed()] if other else passed


def acceptance(services: dict[str, str]) -> list[bool]:
    """Everything with processes of its own."""
    return [start("acceptance", ACCEPTANCE, services).passed()]


def chaos(services: dict[str, str]) -> list[bool]:
    """Races and faults, one suite after the other: they go by moments."""
    os.environ.setdefault("LOOMSVC_ROUNDS", "200")
    passed = [start("races on SQLite", CHAOS_LEDGER).passed()]
    if ledger := on_postgresql(services):
        passed.append(start("races on PostgreSQL", CHAOS_LEDGER, ledger).passed())
    return [*passed, start("faults of processes", CHAOS_PROCESSES, services).passed()]


SUITES = {"everyday": everyday, "acceptance": acceptance, "chaos": chaos}


def main() -> int:
    suite = SUITES[sys.argv[1]]
    postgresql, redis_url = find_postgresql(), find_redis()
    services = {
        **({"TEST_DATABASE_URL": postgresql} if postgresql else {}),
        **({"TEST_REDIS_URL": redis_url} if redis_url else {}),
    }
    passed = suite(services)
    missing = [n for n, found in (("PostgreSQL", postgresql), ("Redis", redis_url)) if not found]
    if missing:
        print(f"\nNot covered: what needs {' and '.join(missing)} (set TEST_DATABASE_URL, TEST_REDIS_URL).")
        if os.environ.get("LOOMSVC_REQUIRE_SERVICES"):
            print("That is a failure here.")
            passed.append(False)
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
