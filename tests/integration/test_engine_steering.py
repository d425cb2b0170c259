"""Pausing, resuming, stepping and cancelling a Run while workers work on it (R9–R11)."""

from __future__ import annotations

from pathlib import Path

import pytest

from apps.core import clock
from apps.results.models import ArtifactRevision
from apps.runs.services.executing import execute
from apps.runs.services.landing import SegmentResult, land
from tests.conftest import Service
from tests.integration.engine_work import lease, lines

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.rule("R9", "R10", "FR-B19")
def test_a_pause_during_a_step_saves_its_result_and_resume_does_not_repeat_it(service: Service, tmp_path: Path) -> None:
    effects = tmp_path / "effects"
    run_id = service.start(do=[{"ending": "again"}], effects=str(effects))
    init = lease(service)
    step = land([SegmentResult(init, execute(init), keep=True)], now=clock.now())[0].next
    assert step is not None
    pausing = service.operate("pause_run", runId=run_id)["run"]
    assert (pausing["status"], pausing["pauseRequested"]) == ("running", True)
    land([SegmentResult(step, execute(step), keep=True)], now=clock.now())
    paused = service.run(run_id)
    assert (paused["status"], paused["pauseRequested"], paused["boundary"]) == ("paused", False, 1)
    service.work()
    assert service.run(run_id) == paused
    assert lines(effects) == [line for line in lines(effects) if "act/1 1" in line]
    resumed = service.operate("resume_run", runId=run_id, expectedRevision=paused["revision"])
    assert resumed["run"]["status"] == "queued"
    assert resumed["run"]["cursor"] == {"stage": "work", "step": "act", "visit": 2}
    service.work()
    assert service.run(run_id)["status"] == "completed"
    assert [line.split()[1] for line in lines(effects)] == ["act/1", "act/2"]


@pytest.mark.rule("R10")
def test_a_resume_that_routes_to_the_end_completes_at_once_without_a_worker(service: Service) -> None:
    run_id = service.start(do=[{"ending": "done"}])
    init = lease(service)
    step = land([SegmentResult(init, execute(init), keep=True)], now=clock.now())[0].next
    assert step is not None
    service.operate("pause_run", runId=run_id)
    land([SegmentResult(step, execute(step))], now=clock.now())
    revision = service.run(run_id)["revision"]
    done = service.operate("resume_run", runId=run_id, expectedRevision=revision)
    assert (done["run"]["status"], done["run"]["outcome"]) == ("completed", "done")


@pytest.mark.rule("R10")
def test_one_step_at_a_time(service: Service) -> None:
    run_id = service.start(do=[{"ending": "again"}, {"ending": "again"}])
    service.operate("pause_run", runId=run_id)
    for boundary in (1, 2):
        revision = service.run(run_id)["revision"]
        service.operate("resume_run", runId=run_id, expectedRevision=revision, steps=1)
        service.work()
        run = service.run(run_id)
        assert (run["status"], run["boundary"]) == ("paused", boundary)


@pytest.mark.rule("R11", "FR-B1", "FR-B3", "FR-A9", "FR-A7")
def test_a_cancel_is_immediate_and_a_late_result_changes_nothing(service: Service, tmp_path: Path) -> None:
    effects = tmp_path / "effects"
    run_id = service.start(do=[{"ending": "again", "artifact": {"n": 1}}], effects=str(effects))
    init = lease(service)
    step = land([SegmentResult(init, execute(init), keep=True)], now=clock.now())[0].next
    assert step is not None
    output = execute(step)
    cancelled = service.operate("cancel_run", runId=run_id)["run"]
    assert cancelled["status"] == "cancelled"
    assert not land([SegmentResult(step, output, keep=True)], now=clock.now())[0].accepted
    assert service.run(run_id) == cancelled
    assert ArtifactRevision.objects.count() == 0
    again = service.operate("cancel_run", runId=run_id)
    assert again["receipt"]["effect"] == "none"
    queued = [service.start(effects=str(effects)) for _ in range(10)]
    for other in queued:
        service.operate("cancel_run", runId=other)
    before = lines(effects)
    service.work()
    assert lines(effects) == before, "a cancelled Run never starts"


@pytest.mark.rule("R7", "R9")
def test_an_outcome_that_is_not_routed_fails_the_run_although_a_pause_was_asked_for(service: Service) -> None:
    run_id = service.start(do=[{"ending": "nowhere"}])
    init = lease(service)
    step = land([SegmentResult(init, execute(init), keep=True)], now=clock.now())[0].next
    assert step is not None
    service.operate("pause_run", runId=run_id)
    land([SegmentResult(step, execute(step))], now=clock.now())
    failed = service.run(run_id)
    assert (failed["status"], failed["lastError"]["code"]) == ("failed", "STEP_OUTCOME_NOT_HANDLED")
    assert failed["pauseRequested"] is False
