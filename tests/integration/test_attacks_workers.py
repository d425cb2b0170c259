"""Workers, leases and landings under attack: lost answers, cut connections, nobody holding what is held."""

from __future__ import annotations

import threading
import uuid
from pathlib import Path
from typing import Any

import pytest
from django.db import OperationalError, connection, transaction
from django.test.utils import CaptureQueriesContext

from apps.core import clock
from apps.core.database import database_now, database_time_after
from apps.runs.models import Run
from apps.runs.services import worker
from apps.runs.services.executing import execute
from apps.runs.services.landing import SegmentResult, land
from apps.runs.services.leasing import Leased, renew_leases, take_lease
from apps.runs.services.sweeping import sweep
from tests.conftest import Service
from tests.integration.attacking import (
    at_once,
    begun,
    begun_loom,
    die_once,
    end_backend,
    finished,
    lease,
    lines,
    make_loom,
    only_on_postgresql,
    wait_until_blocked,
)

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.rule("R6", "F10", "F11")
@pytest.mark.parametrize("before", [True, False], ids=["not committed", "committed"])
def test_a_landing_whose_answer_is_lost_goes_on_without_repeating_a_step(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: bool
) -> None:
    effects = tmp_path / "effects"
    run_id = service.start(do=[{"ending": "again"}] * 3, effects=str(effects))
    monkeypatch.setattr(worker, "land", die_once(land, before=before))
    service.work()
    assert service.run(run_id)["status"] == "completed"
    assert [line.split()[1] for line in lines(effects)] == ["act/1", "act/2", "act/3", "act/4"]
    assert worker.owners() == []


@pytest.mark.rule("R6", "F11")
def test_a_connection_cut_at_the_commit_of_each_landing_costs_nothing(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    only_on_postgresql()
    from apps.runs.services import landing

    cut: list[int] = []

    def reach(place: Any) -> None:
        if place == "after_effect_before_commit" and len(cut) % 2 == 0:
            end_backend()
        cut.append(1)

    effects = tmp_path / "effects"
    run_id = service.start(do=[{"ending": "again"}] * 2, effects=str(effects))
    monkeypatch.setattr(landing, "reach", reach)
    service.work()
    assert service.run(run_id)["status"] == "completed"
    assert len(cut) >= 8
    assert [line.split()[1] for line in lines(effects)] == ["act/1", "act/2", "act/3"]


@pytest.mark.rule("R6", "R13", "F10", "F11")
def test_a_lease_that_nobody_has_in_hand_is_not_renewed(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    run_id = service.start()
    seen: list[list[str]] = []

    def taken_unheard(**keywords: Any) -> Any:
        assert take_lease(**keywords) is not None
        seen.append(worker.owners())
        raise OperationalError("server closed the connection unexpectedly")

    monkeypatch.setattr(worker, "take_lease", taken_unheard)
    service.work()
    assert Run.objects.get().lease_owner in seen[0]
    assert renew_leases(seen[0]) == 1, "in hand it is"
    assert renew_leases(worker.owners()) == 0
    monkeypatch.undo()
    Run.objects.update(lease_expires_at=database_time_after(-1))
    assert sweep(now=clock.now()).interrupted == 1
    service.work()
    assert service.run(run_id)["status"] == "completed"


@pytest.mark.rule("R6", "R13")
@pytest.mark.parametrize("place", ["execute", "land"])
def test_a_turn_that_fails_in_a_way_nobody_foresaw_leaves_no_run_held_for_ever(
    service: Service, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    service.start()

    def fails(*_: Any, **__: Any) -> Any:
        raise RuntimeError(place)

    monkeypatch.setattr(worker, place, fails)
    service.work()
    assert Run.objects.get().status == "running"
    assert renew_leases(worker.owners()) == 0


@pytest.mark.rule("R6")
def test_a_result_that_the_ledger_cannot_store_fails_its_step(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    from apps.runs.services import landing

    real = landing._wait

    def unstorable(*arguments: Any) -> dict[str, Any]:
        return {**real(*arguments), "of": object()}

    monkeypatch.setattr(landing, "_wait", unstorable)
    run = service.finish(do=[{"ending": "ask"}])
    assert run["lastError"]["code"] == "STEP_RESULT_INVALID"
    assert run["status"] == "failed"


@pytest.mark.rule("F10")
def test_a_pulse_whose_connection_was_cut_beats_on(service: Service, settings: Any) -> None:
    only_on_postgresql()
    from dataclasses import replace

    from apps.runs.services.pulse import Pulse

    settings.LOOMSVC = replace(settings.LOOMSVC, lease_seconds=0.3)
    beats: list[bool] = []
    enough = threading.Event()

    def owners() -> list[str]:
        if not beats:
            end_backend()
        beats.append(True)
        return []

    class Counting(Pulse):
        def _beat(self) -> bool:
            ended = super()._beat()
            enough.set()
            return ended

    pulse = Counting(instance_id=uuid.UUID(service.instance_id), owners=owners, on_ended=lambda: None)
    pulse.start()
    assert enough.wait(5), "no beat after the first came through"
    pulse.stop()
    pulse.join(5)


@pytest.mark.rule("R6", "F21")
def test_a_run_that_moved_on_while_its_lock_was_taken_is_leased_with_its_present_state(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    only_on_postgresql()
    from apps.core import database

    _, step = begun(service, do=[{"ending": "again"}])
    output = execute(step)
    # What another worker may do between the look at the queue and the lock is stretched: this one waits for the lock.
    patient = database.for_update
    monkeypatch.setattr(database, "for_update", lambda rows, skip_locked=False: patient(rows))
    Run.objects.update(status="queued", due_at=database_time_after(-1))
    moved_on = threading.Event()
    leased: list[Leased] = []

    def other_worker() -> None:
        with transaction.atomic():
            Run.objects.update(status="running")
            assert land([SegmentResult(step, output)], now=clock.now())[0].accepted
            moved_on.set()
            wait_until_blocked()

    def this_worker() -> None:
        assert moved_on.wait(10)
        leased.append(lease(service))

    assert at_once(other_worker, this_worker) == []
    assert leased[0].position.visit == 2
    assert leased[0].state["trail"] == ["act:again"]


@pytest.mark.rule("R12")
def test_a_step_that_the_sweep_times_out_is_retried_as_one_that_its_worker_does(
    service: Service, loom_paths: Path
) -> None:
    names = ["TimeoutError", "OSError", "Exception", "BaseException", "builtins.TimeoutError"]
    for number, name in enumerate(names):
        extra = f"timeout: 1h\nretry: {{attempts: 2, backoff: 1h, errors: [{name}]}}"
        run_id, _ = begun_loom(service, make_loom(loom_paths, f"overdue{number}", 'return "done"', extra=extra))
        Run.objects.filter(status="running").update(deadline_at=database_time_after(-1))
        assert sweep(now=clock.now()).timed_out == 1
        assert service.run(run_id)["status"] == "queued", (name, service.run(run_id))


@pytest.mark.rule("R6", "F25")
def test_a_run_of_many_slow_steps_gives_way_to_others_when_its_time_is_over(
    service: Service, loom_paths: Path, tmp_path: Path
) -> None:
    effects = tmp_path / "effects"
    slow = make_loom(
        loom_paths, "slow", f'time.sleep(0.05)\n    open({str(effects)!r}, "a").write("slow\\n")\n    return "again"'
    )
    service.operate("run", loomName=slow, input={})
    quick = service.start(do=[{"ending": "done"}], effects=str(effects))
    worker.begin(uuid.UUID(service.instance_id))
    for _ in range(2):
        worker.work(turn_seconds=0.1)
    assert service.run(quick)["status"] == "completed"
    assert len(lines(effects)) <= 5


@pytest.mark.rule("R7", "R16", "F25")
def test_a_run_that_loops_to_its_limit_stops_there_with_its_history_whole(service: Service, loom_paths: Path) -> None:
    run = finished(service, make_loom(loom_paths, "endless", 'return "again"', extra="max_visits: 70"))
    assert run["lastError"]["code"] == "LOOP_LIMIT"
    assert (run["boundary"], run["cursor"]["visit"]) == (70, 70)
    seen: list[int] = []
    cursor: dict[str, str] = {}
    while True:
        with CaptureQueriesContext(connection) as captured:
            page = service.call("list_run_events", runId=run["runId"], limit=25, **cursor)
        assert len(captured) == 2
        seen += [event["seq"] for event in page["events"]]
        if "nextCursor" not in page:
            break
        cursor = {"cursor": page["nextCursor"]}
    assert seen == list(range(1, len(seen) + 1))
    assert len(seen) > 70


@pytest.mark.rule("F22")
def test_what_is_due_now_is_due_at_once_on_every_database(service: Service) -> None:
    service.start()
    for _ in range(30):
        with transaction.atomic():
            Run.objects.update(due_at=database_time_after(0))
            assert Run.objects.filter(due_at__lte=database_now()).exists()
            assert not Run.objects.filter(due_at__lte=database_time_after(-0.05)).exists()


@pytest.mark.rule("R6", "F10")
def test_code_that_reads_after_its_connection_was_cut_reads_on(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    only_on_postgresql()
    service.finish(do=[{"artifact": {"n": 1}}])
    run_id, step = begun(service, do=[{"ending": "done", "artifact": {"n": 2}}])
    end_backend()
    land([SegmentResult(step, execute(step))], now=clock.now())
    assert service.run(run_id)["status"] == "completed", service.run(run_id)
