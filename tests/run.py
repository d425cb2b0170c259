"""Run the suites: ``everyday`` (pure tests once, ledger tests per database) or ``acceptance``.

PostgreSQL and Redis are taken from ``TEST_DATABASE_URL`` and ``TEST_REDIS_URL``, else from their
standard loopback ports; where they are missing, a line says what was not covered.  With
``LOOMSVC_REQUIRE_SERVICES=1`` (CI) a missing one is a failure.
"""

from __future__ import annotations

import getpass
import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PURE = [
    "tests/unit",
    "tests/architecture",
    *(f"tests/docs/test_docs_{name}.py" for name in ("pages", "looms", "intent", "transcripts")),
]
LEDGER = ["tests/integration", "tests/faces"]
ACCEPTANCE = ["tests/acceptance", "tests/docs/test_docs_shown.py"]


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


def pytest(name: str, paths: list[str], **environment: str) -> bool:
    print(f"\n== {name}", flush=True)
    began = time.monotonic()
    known = {key: value for key, value in os.environ.items() if key not in ("DATABASE_URL", "REDIS_URL")}
    code = subprocess.call(
        [sys.executable, "-m", "pytest", *paths, *sys.argv[2:]], cwd=ROOT, env={**known, **environment}
    )
    print(f"== {name}: {'passed' if code == 0 else 'FAILED'} in {time.monotonic() - began:.0f} s", flush=True)
    return code == 0


def main() -> int:
    suite = sys.argv[1]
    postgresql, redis_url = find_postgresql(), find_redis()
    services = {
        **({"TEST_DATABASE_URL": postgresql} if postgresql else {}),
        **({"TEST_REDIS_URL": redis_url} if redis_url else {}),
    }
    passed = []
    if suite == "everyday":
        passed.append(pytest("pure", PURE))
        passed.append(pytest("ledger on SQLite", LEDGER))
        if postgresql:
            passed.append(pytest("ledger on PostgreSQL", LEDGER, DATABASE_URL=postgresql))
    else:
        passed.append(pytest("acceptance", ACCEPTANCE, **services))
    missing = [n for n, found in (("PostgreSQL", postgresql), ("Redis", redis_url)) if not found]
    if missing:
        print(f"\nNot covered: what needs {' and '.join(missing)} (set TEST_DATABASE_URL, TEST_REDIS_URL).")
        if os.environ.get("LOOMSVC_REQUIRE_SERVICES"):
            print("That is a failure here.")
            passed.append(False)
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
