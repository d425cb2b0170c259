"""Whole Looms on the real engine, beside the tester: what an author tries is what the service does."""

from __future__ import annotations

import threading
import time
import uuid
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from apps.core import clock
from apps.runs.models import StepAttempt
from apps.runs.services.executing import execute
from apps.runs.services.landing import SegmentResult, land
from apps.runs.services.leasing import Leased, take_lease
from loomsvc.testing import run_loom
from tests.conftest import LOOMS, Service

pytestmark = pytest.mark.django_db(transaction=True)

CSV = 'city,amount\nRome,10.5\nOslo,"1,5"\nRome,2\nOslo,abc\n,7\n'
TOTALS = [{"group": "Oslo", "count": 1, "total": 1.5}, {"group": "Rome", "count": 2, "total": 12.5}]


def artifact(service: Service, loom: str, stage: str) -> dict[str, Any]:
    found: dict[str, Any] = service.call("get_artifact", loomName=loom, stageName=stage)["artifact"]
    return found


def finished(service: Service, run_id: str, seconds: float = 15) -> dict[str, Any]:
    """The Run once it is over; attempts that are due later are waited for."""
    deadline = time.monotonic() + seconds
    while (run := service.run(run_id))["status"] == "queued":
        assert time.monotonic() < deadline, run
        service.work()
        time.sleep(0.02)
    return run


@pytest.mark.rule("R6", "R7", "R12", "S1")
def test_a_report_of_two_stages_with_a_retry_and_a_loop_is_filed(service: Service) -> None:
    run = finished(service, service.start("csv_report", csv=CSV, flaky=True))
    assert (run["status"], run["outcome"]) == ("completed", "done"), run
    rows = StepAttempt.objects.filter(run_id=run["runId"], kind="step").order_by("step_seq")
    assert list(rows.values_list("step", "visit", "attempt", "status")) == [
        ("read", 1, 1, "failed"),
        ("read", 1, 2, "completed"),
        ("validate", 1, 1, "completed"),
        ("repair", 1, 1, "completed"),
        ("validate", 2, 1, "completed"),
        ("repair", 2, 1, "completed"),
        ("validate", 3, 1, "completed"),
        ("file_rows", 1, 1, "completed"),
        ("aggregate", 1, 1, "completed"),
        ("publish", 1, 1, "completed"),
    ]
    parsed = artifact(service, "csv_report", "parse")["data"]
    assert [row["number"] for row in parsed["rows"]] == [1, 2, 3]
    assert [row["row"] for row in parsed["dropped"]] == [4, 5]
    report = artifact(service, "csv_report", "report")["data"]
    assert (report["totals"], report["dropped"], report["currency"]) == (TOTALS, 2, "EUR")
    record = service.call("get_record", recordId=f"csv-report-{run['runId']}")["record"]
    assert record["data"] == {"at": report["at"], "groups": ["Oslo", "Rome"]}


@pytest.mark.rule("R5", "R7")
def test_an_empty_report_ends_otherwise_and_an_input_that_does_not_fit_is_refused(service: Service) -> None:
    run = service.finish("csv_report", csv="")
    assert (run["status"], run["outcome"], run["results"]["recordIds"]) == ("completed", "empty", [])
    refused = service.operate("run", loomName="csv_report", input={"csv": 3})["error"]
    assert refused["code"] == "INVALID_REQUEST"
    assert [issue["path"] for issue in refused["validation"]["issues"]] == ["/input/csv"]


@pytest.mark.rule("R6", "R12")
def test_async_steps_do_the_same_in_the_tester_and_on_the_engine(service: Service) -> None:
    played = run_loom(LOOMS / "asynchronous", {})
    run = finished(service, service.start("asynchronous"))
    assert (run["status"], run["outcome"]) == (played.status, played.outcome) == ("completed", "done"), run
    kept = artifact(service, "asynchronous", "main")
    assert kept["data"] == played.artifact("main")
    assert kept["revision"] == 3
    assert kept["data"]["seen"] == {
        "cancelled": False,
        "before": False,
        "missing": [None, None],
        "staged": {"by": "use"},
        "latest": {"n": 1},
        "previous": "used",
        "landed": {"by": "use"},
    }


LOOPING = """\
loom: looping
title: Looping
description: Never ends.
entry: main
stages:
  main:
    entry: turn
    steps:
      turn: {code: steps:turn, on: {left: left, right: right}}
      left: {code: steps:back, max_visits: 2, on: {back: turn}}
      right: {code: steps:back, on: {done: end}}
    on: {done: end}
"""


@pytest.mark.rule("R7")
@pytest.mark.parametrize(
    ("way", "code"), [("left", "LOOP_LIMIT"), ("right", "STEP_OUTCOME_NOT_HANDLED"), ("up", "STEP_OUTCOME_NOT_HANDLED")]
)
def test_a_run_that_has_no_way_on_fails_alike_in_the_tester_and_on_the_engine(
    service: Service, loom_paths: Path, way: str, code: str
) -> None:
    folder = loom_paths / "looping"
    folder.mkdir()
    (folder / "loom.yaml").write_text(LOOPING)
    (folder / "steps.py").write_text(
        'def turn(step):\n    return step.input["way"]\n\ndef back(step):\n    return "back"\n'
    )
    played = run_loom(folder, {"way": way}).problem
    assert played is not None
    assert played.code == code
    assert service.finish("looping", way=way)["lastError"] == asdict(played)


def begun(service: Service, **amount: Any) -> tuple[str, Leased]:
    """A Run of ``tally`` whose Step is in a worker's hands."""
    run_id = service.start("tally", **amount)
    leased = take_lease(owner=run_id, instance_id=uuid.UUID(service.instance_id), now=clock.now())
    assert leased is not None
    step = land([SegmentResult(leased, execute(leased), keep=True)], now=clock.now())[0].next
    assert step is not None
    return run_id, step


@pytest.mark.rule("S4", "R6", "R12")
@pytest.mark.parametrize("looks", [True, False])
@pytest.mark.parametrize("stands_before", [0, 10])
def test_of_two_runs_that_commit_at_once_the_later_is_retried_on_what_the_earlier_left(
    service: Service, stands_before: int, looks: bool
) -> None:
    if stands_before:
        service.finish("tally", n=stands_before)
    (first, one), (second, two) = begun(service, n=1), begun(service, n=2, looks=looks)
    outputs = [SegmentResult(leased, execute(leased)) for leased in (one, two)]
    for result in outputs:
        assert land([result], now=clock.now())[0].accepted
    assert service.run(first)["status"] == "completed"
    assert service.run(second)["status"] == "queued"
    assert service.call("get_record", recordId=f"tally-{second}") == {"record": None}
    (failed,) = StepAttempt.objects.filter(run_id=second, kind="step")
    assert (failed.status, failed.error["code"]) == ("failed", "STEP_FAILED")
    assert failed.error["message"].startswith("ArtifactConflict: ")

    assert finished(service, second)["outcome"] == "added"
    kept = artifact(service, "tally", "main")
    assert kept["revision"] == (3 if stands_before else 2)
    assert kept["data"] == {"total": stands_before + 3 if looks else 2}
    assert service.call("get_record", recordId=f"tally-{second}")["record"]["data"] == {"n": 2, "attempt": 2}


@pytest.mark.rule("S4", "R12", "FR-G5")
def test_runs_that_overlap_and_retry_lose_no_addition(service: Service) -> None:
    ids = [service.start("tally", n=1) for _ in range(8)]

    def work() -> None:
        try:
            service.work()
        finally:
            connection.close()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ended = [finished(service, run_id) for run_id in ids]
    added = [run for run in ended if run["status"] == "completed"]
    assert len(added) > 1
    assert artifact(service, "tally", "main")["data"] == {"total": len(added)}
