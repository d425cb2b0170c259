"""What stands or falls together: rings after commits, writers that queue, batches that fall back."""

from __future__ import annotations

import threading
import uuid
from typing import Any

import pytest
from django.db import connection, transaction

from apps.core import clock
from apps.looms.segments import Outcome
from apps.runs import queue
from apps.runs.models import Run, StepAttempt
from apps.runs.services import landing
from apps.runs.services.executing import execute
from apps.runs.services.landing import SegmentResult, land
from apps.runs.services.leasing import Leased, take_lease
from tests.conftest import Service

pytestmark = pytest.mark.django_db(transaction=True)


def lease(service: Service) -> Leased:
    leased = take_lease(owner="worker", instance_id=uuid.UUID(service.instance_id), now=clock.now())
    assert leased is not None
    return leased


@pytest.mark.rule("FR-A21")
def test_a_worker_is_rung_for_only_when_it_can_see_what_is_due(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = service.start()
    service.operate("pause_run", runId=run_id)
    seen: list[str] = []

    def look(after: float = 0.0) -> None:
        """What a worker that starts at this very instant finds, over a connection of its own."""

        def read() -> None:
            seen.append(Run.objects.get(pk=run_id).status)
            connection.close()

        thread = threading.Thread(target=read)
        thread.start()
        thread.join()

    monkeypatch.setattr(queue._bell, "ring", look)
    service.operate("resume_run", runId=run_id, expectedRevision=service.run(run_id)["revision"])
    assert seen == ["queued"]


@pytest.mark.rule("FR-A21")
def test_a_ring_of_a_transaction_that_is_rolled_back_is_never_heard(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    rings: list[float] = []
    monkeypatch.setattr(queue._bell, "ring", rings.append)

    def ring_and_fail() -> None:
        with transaction.atomic():
            queue.ring_on_commit()
            raise RuntimeError

    with pytest.raises(RuntimeError):
        ring_and_fail()
    assert rings == []


@pytest.mark.rule("FR-G1", "F14")
def test_two_threads_that_read_and_then_write_in_one_transaction_both_get_their_turn(service: Service) -> None:
    run_id = service.start()
    barrier = threading.Barrier(8)
    failures: list[Exception] = []

    def read_then_write() -> None:
        try:
            barrier.wait()
            for _ in range(10):
                with transaction.atomic():
                    run = Run.objects.select_for_update().get(pk=run_id)
                    Run.objects.filter(pk=run_id).update(boundary=run.boundary + 1)
        except Exception as error:
            failures.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=read_then_write) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert Run.objects.get(pk=run_id).boundary == 80


@pytest.mark.rule("R6")
def test_results_of_several_runs_land_in_one_transaction(service: Service) -> None:
    from django.test.utils import CaptureQueriesContext

    for _ in range(3):
        service.start()
    results = [SegmentResult(held, execute(held)) for held in (lease(service), lease(service), lease(service))]
    with CaptureQueriesContext(connection) as captured:
        landed = land(results, now=clock.now())
    assert [one.accepted for one in landed] == [True] * 3
    assert [query["sql"] for query in captured].count("COMMIT") == 1


@pytest.mark.rule("R6")
def test_a_batch_with_one_bad_result_falls_back_so_that_the_others_land(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(3):
        service.start()
    held = [lease(service), lease(service), lease(service)]
    results = [SegmentResult(one, execute(one)) for one in held]
    land_one = landing._land_one

    def trip(result: SegmentResult, **more: Any) -> Any:
        if result.leased is held[1]:
            raise RuntimeError("this one cannot land")
        return land_one(result, **more)

    monkeypatch.setattr(landing, "_land_one", trip)
    assert [one.accepted for one in land(results, now=clock.now())] == [True, False, True]
    monkeypatch.undo()
    counts = {one.run_id: StepAttempt.objects.filter(run_id=one.run_id).count() for one in held}
    assert counts == {held[0].run_id: 1, held[1].run_id: 0, held[2].run_id: 1}
    assert isinstance(results[1].output.ending, Outcome)
    assert land([results[1]], now=clock.now())[0].accepted
