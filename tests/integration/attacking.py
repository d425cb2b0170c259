"""What the attacks share: two that meet at once, Looms made for one test, connections that are cut."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.db import connection, transaction

from apps.core import clock
from apps.runs.services.executing import execute
from apps.runs.services.landing import SegmentResult, land
from apps.runs.services.leasing import Leased, take_lease
from tests.conftest import Service


def lease(service: Service, owner: str = "worker") -> Leased:
    leased = take_lease(owner=owner, instance_id=uuid.UUID(service.instance_id), now=clock.now())
    assert leased is not None
    return leased


def at_once(*bodies: Callable[[], None]) -> list[BaseException]:
    """Run each body on a thread of its own; what they raised."""
    raised: list[BaseException] = []

    def guarded(body: Callable[[], None]) -> None:
        try:
            body()
        except BaseException as error:
            raised.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=guarded, args=(body,)) for body in bodies]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert not any(thread.is_alive() for thread in threads)
    return raised


def begun(service: Service, **plan: Any) -> tuple[str, Leased]:
    """A Run whose first Code Step a worker has begun; its id and that Step."""
    run_id = service.start(**plan)
    init = lease(service)
    step = land([SegmentResult(init, execute(init), keep=True)], now=clock.now())[0].next
    assert step is not None
    return run_id, step


LOOM = """\
loom: {name}
title: {name}
description: Made by a test.
entry: only
stages:
  only:
    state: steps:Nothing
    initialize: steps:begin
    entry: act
    steps:
      act:
        code: steps:act
{extra}        on: {{done: end, again: act}}
    on: {{done: end}}
"""


STEPS = """\
import datetime as dt
import time
from pydantic import BaseModel
from loomsvc.authoring import *

class Nothing(BaseModel):
    pass

def begin(context):
    return Nothing()

def act(step: CodeStep[Nothing]):
    {body}
"""


def make_loom(folder: Path, name: str, body: str, *, extra: str = "", more: str = "") -> str:
    """A Loom of one Step with ``body``, ``extra`` keys of the Step and ``more`` functions; its name."""
    (folder / name).mkdir()
    keys = "".join(f"        {line}\n" for line in extra.splitlines())
    (folder / name / "loom.yaml").write_text(LOOM.format(name=name, extra=keys))
    (folder / name / "steps.py").write_text(STEPS.replace("{body}", body) + more)
    return name


def begun_loom(service: Service, loom: str) -> tuple[str, Leased]:
    """A Run of ``loom`` whose Step a worker has begun."""
    result = service.operate("run", loomName=loom, input={})
    assert "error" not in result, (result, service.call("list_looms"))
    init = lease(service)
    step = land([SegmentResult(init, execute(init), keep=True)], now=clock.now())[0].next
    assert step is not None
    return str(result["run"]["runId"]), step


def finished(service: Service, loom: str) -> dict[str, Any]:
    """A Run of ``loom`` after all that was due has been done; its view."""
    result = service.operate("run", loomName=loom, input={})
    assert "error" not in result, (result, service.call("list_looms"))
    service.work()
    return service.run(result["run"]["runId"])


def deadlocks() -> int:
    """How many PostgreSQL has broken up in this database."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_force_next_flush()")
        cursor.execute("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
        return int(cursor.fetchone()[0])


def only_on_postgresql() -> None:
    if connection.vendor != "postgresql":
        pytest.skip("SQLite has one writer at a time and one lock")


def end_backend() -> None:
    """Cut this thread's connection to PostgreSQL, as a restart or a firewall does."""
    import psycopg

    connection.ensure_connection()
    backend = connection.connection.info.backend_pid
    options = {k: v for k, v in connection.get_connection_params().items() if k in ("host", "port", "user")}
    with psycopg.connect(dbname=connection.settings_dict["NAME"], **options, autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(%s, 5000)", [backend])


def wait_until_blocked() -> None:
    """Return once some transaction waits for another."""
    with connection.cursor() as cursor:
        for _ in range(500):
            cursor.execute("SELECT pg_stat_clear_snapshot()")
            cursor.execute(
                "SELECT count(*) FROM pg_locks WHERE NOT granted AND pid IN (SELECT pid FROM pg_stat_activity "
                "WHERE datname = current_database())"
            )
            if cursor.fetchone()[0]:
                return
            threading.Event().wait(0.01)
    raise AssertionError("nobody waits")


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def landed_together(*steps: Leased) -> list[BaseException]:
    """Land both Steps so that the second meets the first's uncommitted rows; what went wrong."""
    from apps.runs.services import landing

    outputs = [execute(step) for step in steps]
    first_is_written = threading.Event()

    def first() -> None:
        with transaction.atomic():
            landing._land_one(SegmentResult(steps[0], outputs[0]), now=clock.now())
            first_is_written.set()
            wait_until_blocked()

    def second() -> None:
        assert first_is_written.wait(10)
        land([SegmentResult(steps[1], outputs[1])], now=clock.now())

    return at_once(first, second)
