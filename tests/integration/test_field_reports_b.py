"""Pausing, resuming, cancelling and answering, as they went wrong elsewhere (FR-B): the same steps, here."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pytest

from apps.core import clock
from apps.core.database import database_time_after
from apps.ledger.models import Event
from apps.runs.models import Run, State, StepAttempt
from apps.runs.services.executing import execute
from apps.runs.services.landing import SegmentResult, land
from apps.runs.services.sweeping import sweep
from tests.conftest import Service
from tests.integration.attacking import at_once, begun, begun_loom, lines, make_loom

pytestmark = pytest.mark.django_db(transaction=True)

YES = [{"questionId": "q", "isSkipped": False, "answer": "yes"}]


def steps_of(run_id: str) -> list[tuple[str, int, str, int, str]]:
    """Every attempt at a Step, in order: Step, visit, what of it ran, attempt, what became of it."""
    rows = StepAttempt.objects.filter(run_id=run_id).exclude(kind="initialize").order_by("step_seq")
    return list(rows.values_list("step", "visit", "kind", "attempt", "status"))


def events(service: Service, run_id: str) -> list[str]:
    return [event["type"] for event in service.call("list_run_events", runId=run_id)["events"]]


def waiting(service: Service, **plan: Any) -> tuple[str, str]:
    run = service.finish(**plan)
    assert run["status"] == "waiting", run
    return run["runId"], run["pendingAction"]["id"]


@pytest.mark.rule("FR-B1")
def test_a_run_cancelled_while_its_first_step_runs_stays_cancelled_and_the_second_never_starts(
    service: Service, tmp_path: Path
) -> None:
    effects = tmp_path / "effects"
    run_id, step = begun(service, do=[{"ending": "again"}, {"ending": "done"}], effects=str(effects))
    cancelled = service.operate("cancel_run", runId=run_id)["run"]
    assert Run.objects.get(pk=run_id).fence > step.fence
    late = SegmentResult(step, execute(step), keep=True)
    assert not land([late], now=clock.now())[0].accepted
    sweep(now=clock.now())
    service.work()
    assert service.run(run_id) == cancelled
    assert [line.split()[1] for line in lines(effects)] == ["act/1"]
    assert events(service, run_id)[-1] == "RunCancelled"


@pytest.mark.rule("FR-B3")
def test_a_paused_run_is_cancelled_at_once_without_a_worker(service: Service) -> None:
    run_id, step = begun(service, do=[{"ending": "again"}])
    service.operate("pause_run", runId=run_id)
    land([SegmentResult(step, execute(step))], now=clock.now())
    assert service.run(run_id)["status"] == "paused"
    # From here on no worker looks at anything.
    result = service.operate("cancel_run", runId=run_id)
    assert (result["receipt"]["effect"], result["run"]["status"]) == ("applied", "cancelled")
    assert result["run"]["finishedAt"]
    assert service.run(run_id) == result["run"]
    assert len(steps_of(run_id)) == 1


TYPED = """step.ask([
        Question("count", "How many?", options=[Option("1", "One"), Option("2", "Two")]),
        Question("why", "Why?", is_skippable=True),
    ], then=told)"""
TOLD = """
def told(step, answers):
    step.append_record([[one.question_id, one.is_skipped, one.answer] for one in answers], record_id="told")
    return "done"
"""


@pytest.mark.rule("FR-B5", "H3")
def test_an_answer_of_the_wrong_type_is_told_with_a_pointer_and_the_question_is_asked_on(
    service: Service, loom_paths: Path
) -> None:
    run = service.finish(make_loom(loom_paths, "typed", f"return {TYPED}", more=TOLD))
    action = run["pendingAction"]["id"]
    why = {"questionId": "why", "isSkipped": True}
    wrong = {"/answer/0/answer": 1, "/answer/0/isSkipped": None}
    for path, given in wrong.items():
        count = {"questionId": "count", "isSkipped": given is None, **({} if given is None else {"answer": given})}
        refused = service.operate("answer_ask", runId=run["runId"], actionId=action, answer=[count, why])
        assert [issue["path"] for issue in refused["error"]["validation"]["issues"]] == [path]
        assert service.run(run["runId"]) == run
    right = [{"questionId": "count", "isSkipped": False, "answer": "1"}, why]
    service.operate("answer_ask", runId=run["runId"], actionId=action, answer=right)
    service.work()
    assert service.run(run["runId"])["status"] == "completed"
    told = service.call("get_record", recordId="told")["record"]["data"]
    assert told == [["count", False, "1"], ["why", True, None]]


@pytest.mark.rule("FR-B7")
def test_of_two_waiting_runs_a_bare_answer_reaches_none_and_a_named_one_only_its_own(service: Service) -> None:
    (first, action), (second, other) = (waiting(service, do=[{"ending": "ask"}]) for _ in range(2))
    before = service.run(first), service.run(second)
    bare = service.operate("answer_ask", answer=YES)["error"]
    assert bare["code"] == "INVALID_REQUEST"
    assert {issue["path"] for issue in bare["validation"]["issues"]} == {"/runId", "/actionId"}
    for run_id in (first, second):
        nameless = service.operate("answer_ask", runId=run_id, answer=YES)["error"]
        assert [issue["path"] for issue in nameless["validation"]["issues"]] == ["/actionId"]
    crossed = service.operate("answer_ask", runId=first, actionId=other, answer=YES)
    assert crossed["error"]["code"] == "CONFLICT"
    assert (service.run(first), service.run(second)) == before
    service.operate("answer_ask", runId=first, actionId=action, answer=YES)
    service.work()
    assert service.run(first)["status"] == "completed"
    assert service.run(second) == before[1]


@pytest.mark.rule("FR-B9")
def test_an_answer_that_comes_at_once_and_often_leaves_one_attempt_at_each_later_step(
    service: Service, tmp_path: Path
) -> None:
    effects = tmp_path / "effects"
    plan = [{"ending": "ask"}, {"ending": "again"}, {"ending": "other"}, {"ending": "leave"}]
    run_id, action = waiting(service, do=plan, effects=str(effects))
    identity = {"operationId": str(uuid.uuid4()), "serviceInstanceId": service.instance_id}

    def answer() -> None:
        service.call("answer_ask", **identity, runId=run_id, actionId=action, answer=YES)

    assert at_once(answer, service.work, answer, service.work) == []
    service.work()
    assert service.run(run_id)["status"] == "completed"
    assert steps_of(run_id) == [
        ("act", 1, "step", 1, "waited"),
        ("act", 1, "continuation", 1, "completed"),
        ("act", 2, "step", 1, "completed"),
        ("rerunnable", 1, "step", 1, "completed"),
        ("close", 1, "step", 1, "completed"),
    ]
    assert len(lines(effects)) == 5


@pytest.mark.rule("FR-B11")
def test_the_same_start_sent_three_times_is_one_run_and_one_receipt(service: Service) -> None:
    identity = {"operationId": str(uuid.uuid4()), "serviceInstanceId": service.instance_id}
    replies = []
    for _ in range(3):
        replies.append(service.call("run", **identity, loomName="trial", input={}))
        service.work()
    assert replies[0]["receipt"] == replies[1]["receipt"] == replies[2]["receipt"]
    assert len(service.call("list_runs")["runs"]) == 1
    assert len(steps_of(replies[0]["run"]["runId"])) == 1


FLAKY = """step.log.info(f"{step.attempt} {step.idempotency_key}")
    if step.attempt == 1:
        raise ConnectionError("not yet")
    return "done\""""
RETRY = "retry: {attempts: 4, backoff: 1h, errors: [ConnectionError]}"


@pytest.mark.rule("FR-B13", "R12", "R13")
def test_a_restart_during_a_backoff_goes_on_with_attempt_two_and_when_it_is_due(
    service: Service, loom_paths: Path
) -> None:
    run = service.finish(make_loom(loom_paths, "flaky", FLAKY, extra=RETRY))
    run_id = run["runId"]
    assert (run["status"], steps_of(run_id)) == ("queued", [("act", 1, "step", 1, "failed")])
    service.reopen()
    service.work()
    assert service.run(run_id) == run, "an hour is still an hour"
    Run.objects.filter(pk=run_id).update(due_at=database_time_after(-1))
    service.work()
    assert service.run(run_id)["status"] == "completed"
    assert steps_of(run_id) == [("act", 1, "step", 1, "failed"), ("act", 1, "step", 2, "completed")]
    attempts = service.call("list_run_attempts", runId=run_id)["attempts"]
    said = [attempt["log"][0]["message"].split() for attempt in attempts if attempt["kind"] == "step"]
    assert [number for number, _ in said] == ["1", "2"]
    assert said[0][1] == said[1][1], "the same key for both attempts"


@pytest.mark.rule("FR-B13")
def test_a_restart_after_each_failure_never_begins_the_count_anew(service: Service, loom_paths: Path) -> None:
    run_id = service.finish(make_loom(loom_paths, "hopeless", 'raise ConnectionError("no")', extra=RETRY))["runId"]
    for _ in range(3):
        assert service.run(run_id)["status"] == "queued"
        service.reopen()
        Run.objects.filter(pk=run_id).update(due_at=database_time_after(-1))
        service.work()
    failed = service.run(run_id)
    assert (failed["status"], failed["lastError"]["attempt"]) == ("failed", 4)
    assert [attempt for _, _, _, attempt, _ in steps_of(run_id)] == [1, 2, 3, 4]


@pytest.mark.rule("FR-B15", "H7")
def test_an_answered_run_goes_on_after_its_wait_and_repeats_no_step_before_it(service: Service, tmp_path: Path) -> None:
    effects = tmp_path / "effects"
    plan = [{"ending": "again"}, {"ending": "ask"}, {"ending": "other"}, {"ending": "done"}]
    run_id, action = waiting(service, do=plan, effects=str(effects))
    before = lines(effects)
    assert [line.split()[1] for line in before] == ["act/1", "act/2"]
    service.reopen()
    service.operate("answer_ask", runId=run_id, actionId=action, answer=YES)
    assert at_once(service.work, service.work) == []
    service.work()
    assert service.run(run_id)["status"] == "completed"
    assert lines(effects)[:2] == before
    assert [line.split()[1] for line in lines(effects)[2:]] == ["act/2", "rerunnable/1"]
    assert [kind for _, _, kind, _, _ in steps_of(run_id)] == ["step", "step", "continuation", "step"]
    trail = State.objects.filter(run_id=run_id).latest("id").data["trail"]
    assert trail == ["act:again", "act:ask", "answered:yes", "rerunnable:done"]


@pytest.mark.rule("FR-B17", "R16")
@pytest.mark.parametrize("second", ["landing", "sweep", "timeout", "opening"])
def test_a_step_that_fails_for_two_at_once_fails_its_run_once(service: Service, second: str, loom_paths: Path) -> None:
    name = make_loom(loom_paths, "doomed", 'raise ValueError("no")', extra="timeout: 1h")
    run_id, step = begun_loom(service, name)
    failure = SegmentResult(step, execute(step))
    taken: list[bool] = []

    def fails() -> None:
        taken.append(land([failure], now=clock.now())[0].accepted)

    def other() -> None:
        if second == "landing":
            fails()
        elif second == "opening":
            service.reopen()
        else:
            sweep(now=clock.now())

    if second in ("sweep", "timeout"):
        field = "deadline_at" if second == "timeout" else "lease_expires_at"
        Run.objects.filter(pk=run_id).update(**{field: database_time_after(-1)})
    assert at_once(fails, other) == []
    assert taken.count(True) <= 1
    failed = service.run(run_id)
    assert failed["status"] == "failed"
    assert events(service, run_id).count("RunFailed") == 1
    (told,) = Event.objects.filter(run_id=run_id, type="RunFailed")
    assert told.data == failed["lastError"]
    assert not land([failure], now=clock.now())[0].accepted
    sweep(now=clock.now())
    service.work()
    assert service.run(run_id)["revision"] == failed["revision"]


@pytest.mark.rule("FR-B19")
def test_a_pause_while_step_two_of_three_runs_lets_it_complete_and_the_third_waits(
    service: Service, tmp_path: Path
) -> None:
    effects = tmp_path / "effects"
    plan = [{"ending": "again"}, {"ending": "again"}, {"ending": "done"}]
    run_id, step = begun(service, do=plan, effects=str(effects))
    second = land([SegmentResult(step, execute(step), keep=True)], now=clock.now())[0].next
    assert second is not None
    pausing = service.operate("pause_run", runId=run_id)["run"]
    assert (pausing["status"], pausing["pauseRequested"], pausing["cursor"]["visit"]) == ("running", True, 2)
    land([SegmentResult(second, execute(second), keep=True)], now=clock.now())
    paused = service.run(run_id)
    assert (paused["status"], paused["boundary"]) == ("paused", 2)
    sweep(now=clock.now())
    service.work()
    assert service.run(run_id) == paused
    service.operate("resume_run", runId=run_id, expectedRevision=paused["revision"])
    service.work()
    assert service.run(run_id)["status"] == "completed"
    assert [line.split()[1] for line in lines(effects)] == ["act/1", "act/2", "act/3"]
