"""What waits for whom: no order of locks ends in a deadlock, and none is waited for in vain."""

from __future__ import annotations

import threading
import uuid
from pathlib import Path

import pytest
from django.db import transaction

from apps.core import clock
from apps.core.database import database_time_after, for_update
from apps.results.models import Record
from apps.runs.models import Run
from apps.runs.services.executing import execute
from apps.runs.services.landing import SegmentResult, land
from apps.runs.services.leasing import renew_leases
from tests.conftest import Service
from tests.integration.attacking import (
    at_once,
    begun,
    begun_loom,
    deadlocks,
    landed_together,
    make_loom,
    only_on_postgresql,
    wait_until_blocked,
)

pytestmark = pytest.mark.django_db(transaction=True)


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


@pytest.mark.rule("S3", "F13")
def test_two_runs_that_append_the_same_record_at_once_both_succeed(service: Service) -> None:
    only_on_postgresql()
    runs = [begun(service, do=[{"record": "same"}]) for _ in range(2)]
    assert landed_together(*(step for _, step in runs)) == []
    assert [service.run(run_id)["status"] for run_id, _ in runs] == ["completed", "completed"]
    assert Record.objects.get().record_id == "same"


@pytest.mark.rule("S3", "S4", "F13")
def test_an_id_that_another_run_takes_at_the_same_moment_is_refused_by_its_name(
    service: Service, loom_paths: Path
) -> None:
    only_on_postgresql()
    looms = [
        make_loom(loom_paths, f"maker{n}", f'step.append_record({n}, record_id="r")\n    return "done"') for n in (1, 2)
    ]
    runs = [begun_loom(service, loom) for loom in looms]
    assert landed_together(*(step for _, step in runs)) == []
    assert service.run(runs[0][0])["status"] == "completed"
    error = service.run(runs[1][0])["lastError"]
    assert error["message"] == "RecordConflict: there is a Record r with other data"


@pytest.mark.rule("S3", "F13", "FR-G5")
def test_runs_that_append_the_same_records_in_opposite_orders_make_no_deadlock(
    service: Service, loom_paths: Path
) -> None:
    only_on_postgresql()
    ids = [f"r{n:03}" for n in range(300)]
    looms = [
        make_loom(
            loom_paths,
            f"order{n}",
            f'[step.append_record(0, record_id=one) for one in {order!r}]\n    return "done"',
        )
        for n, order in enumerate((ids, ids[::-1]))
    ]
    deadlocks_before = deadlocks()
    for _ in range(5):
        runs = [begun_loom(service, loom) for loom in looms]
        steps = [(step, execute(step)) for _, step in runs]
        assert at_once(*(lambda s=s, o=o: land([SegmentResult(s, o)], now=clock.now()) for s, o in steps)) == []
        assert {service.run(run_id)["status"] for run_id, _ in runs} == {"completed"}
        Record.objects.all().delete()
    assert deadlocks() == deadlocks_before
