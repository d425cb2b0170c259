"""Attacks on the ledger and the engine: lost answers, opposite lock orders, skewed clocks, hostile values."""

from __future__ import annotations

import shutil
import threading
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.db import OperationalError, connection, transaction

from apps.core import clock
from apps.core.database import database_time_after, for_update
from apps.looms.segments import SegmentOutput
from apps.runs.models import Run
from apps.runs.services import worker
from apps.runs.services.executing import execute
from apps.runs.services.landing import Landed, SegmentResult, land
from apps.runs.services.leasing import Leased, renew_leases, take_lease
from tests.conftest import LOOMS, Service

pytestmark = pytest.mark.django_db(transaction=True)


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


def only_on_postgresql() -> None:
    if connection.vendor != "postgresql":
        pytest.skip("SQLite has one writer at a time and one lock")


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


@pytest.mark.rule("FR-G5", "F13", "R13")
def test_a_run_that_ends_while_an_instance_is_opened_makes_no_deadlock(service: Service) -> None:
    only_on_postgresql()
    from apps.runs.services import landing

    _, step = begun(service, do=[{"ending": "done"}])
    output = execute(step)
    landed_uncommitted = threading.Event()

    def finish() -> None:
        with transaction.atomic():
            landing._land_one(SegmentResult(step, output), now=clock.now())
            landed_uncommitted.set()
            wait_until_blocked()

    def open_anew() -> None:
        assert landed_uncommitted.wait(10)
        service.reopen()

    assert at_once(finish, open_anew) == []
    assert Run.objects.get().status == "completed"


@pytest.mark.rule("FR-G5", "F13")
def test_the_pulse_and_the_opening_of_an_instance_lock_runs_in_one_order(service: Service) -> None:
    only_on_postgresql()
    ids = sorted(uuid.UUID(begun(service)[0]) for _ in range(2))
    # An UPDATE meets rows as they lie in the table or its index: the first Run's row comes last in both.
    Run.objects.filter(pk=ids[0]).update(lease_expires_at=database_time_after(60))
    first_is_held = threading.Event()

    def open_anew() -> None:
        with transaction.atomic():
            for_update(Run.objects.filter(pk=ids[0])).get()
            first_is_held.set()
            wait_until_blocked()
            for_update(Run.objects.filter(pk=ids[1])).get()

    def renew() -> None:
        assert first_is_held.wait(10)
        assert renew_leases(["worker"]) == 2

    assert at_once(open_anew, renew) == []
