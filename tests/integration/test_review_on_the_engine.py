"""The review example on the ledger: a person is asked, takes their time, and nothing is lost meanwhile."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from apps.core import clock
from apps.core.caller import Source
from apps.runs.models import Run, StepAttempt
from apps.runs.services.executing import execute
from apps.runs.services.landing import SegmentResult, land
from tests.conftest import Service
from tests.integration.attacking import lease

pytestmark = pytest.mark.django_db(transaction=True)

REQUEST = {"title": "Sign", "text": "Push the door.", "checks": ["Is it true?"]}


def said(**given: str) -> list[dict[str, Any]]:
    """Answers to the questions of a round; what is not given is skipped."""
    names = ("verdict", "point", "check_1", "edits", "notes")
    return [
        {"questionId": name, "isSkipped": False, "answer": given[name]}
        if name in given
        else {"questionId": name, "isSkipped": True}
        for name in [*names, *(name for name in given if name not in names)]
    ]


FIRST = said(verdict="with_edits", point="Push.", edits="door -> gate")


def answer(service: Service, run_id: str, given: Any, **more: Any) -> dict[str, Any]:
    """Answer what the Run waits for and work until it rests; the result of ``answer_ask``."""
    action = service.run(run_id)["pendingAction"]["id"]
    result = service.operate("answer_ask", runId=run_id, actionId=action, answer=given, **more)
    service.work()
    return result


def asked(service: Service) -> str:
    """A Run that waits for the answers of its first round."""
    run = service.finish("review", **REQUEST)
    assert (run["status"], run["cursor"]["step"]) == ("waiting", "ask")
    return str(run["runId"])


@pytest.mark.rule("H1", "H2", "H7", "R7", "S1", "S3")
def test_a_text_is_reviewed_in_two_rounds_with_a_restart_in_each_wait(service: Service) -> None:
    run_id = asked(service)
    service.reopen()
    answer(service, run_id, FIRST)
    confirmation = service.run(run_id)["pendingAction"]
    assert (confirmation["kind"], confirmation["onlyPerson"]) == ("confirmation", True)
    assert "-Push the door.\n+Push the gate." in confirmation["request"]["context"]
    service.reopen()
    answer(service, run_id, {"isConfirmed": False, "feedback": "It is a pull gate."})
    second = service.run(run_id)["pendingAction"]["request"][0]
    assert second["question"].startswith("Round 2 of 10")
    assert "It is a pull gate." in second["description"]
    answer(service, run_id, said(verdict="with_edits", edits="Push => Pull", check_1="yes", start_from="proposal"))
    answer(service, run_id, {"isConfirmed": True})
    run = service.run(run_id)
    assert (run["status"], run["outcome"]) == ("completed", "accepted"), run
    artifact = service.call("get_artifact", loomName="review", stageName="review")["artifact"]["data"]
    assert artifact["text"] == "Pull the gate."
    assert (artifact["version"], artifact["verdict"], artifact["rounds"]) == (1, "with_edits", 2)
    assert artifact["checks"] == [{"question": "Is it true?", "answer": "yes"}]
    rounds = [service.call("get_record", recordId=f"review-{run_id}-{n}")["record"]["data"] for n in (1, 2)]
    assert [one["is_confirmed"] for one in rounds] == [False, True]
    assert rounds[0]["feedback"] == "It is a pull gate."
    assert run["results"]["recordIds"] == [f"review-{run_id}-1", f"review-{run_id}-2"]
    done = StepAttempt.objects.filter(run_id=run_id, kind__in=["step", "continuation"]).values_list("status", flat=True)
    assert set(done) == {"completed", "waited"}, "no part of it was begun twice"


@pytest.mark.rule("S4", "R12")
def test_two_reviews_that_are_filed_at_once_are_both_filed(service: Service) -> None:
    ids = [asked(service), asked(service)]
    filing = []
    for run_id in ids:
        answer(service, run_id, FIRST)
        action = service.run(run_id)["pendingAction"]["id"]
        service.operate("answer_ask", runId=run_id, actionId=action, answer={"isConfirmed": True})
        decided = lease(service, run_id)
        step = land([SegmentResult(decided, execute(decided), keep=True)], now=clock.now())[0].next
        assert step is not None
        filing.append(SegmentResult(step, execute(step)))
    for result in filing:
        assert land([result], now=clock.now())[0].accepted
    assert [service.run(run_id)["status"] for run_id in ids] == ["completed", "queued"]
    Run.objects.filter(status="queued").update(due_at=clock.now())
    service.work()
    assert service.run(ids[1])["outcome"] == "accepted"
    assert service.call("get_artifact", loomName="review", stageName="review")["artifact"]["revision"] == 2


@pytest.mark.rule("R5")
def test_a_text_that_is_none_is_refused_before_there_is_a_run(service: Service) -> None:
    refused = service.operate("run", loomName="review", input={"title": "", "text": " ", "reader": 1})
    assert {issue["path"] for issue in refused["error"]["validation"]["issues"]} == {
        "/input/title",
        "/input/text",
        "/input/reader",
    }
    assert service.call("list_runs")["runs"] == []


@pytest.mark.rule("H1", "H2", "H3", "FR-B5")
def test_a_wrong_answer_is_told_its_places_and_the_question_still_waits(service: Service) -> None:
    run_id = asked(service)
    before = service.run(run_id)
    skipped = [{"questionId": name, "isSkipped": True} for name in ("verdict", "point", "edits")]
    refused = answer(service, run_id, [*skipped, {"questionId": "edits", "isSkipped": False, "answer": 1}])
    assert refused["error"]["code"] == "INVALID_REQUEST"
    assert [issue["path"] for issue in refused["error"]["validation"]["issues"]] == [
        "/answer/0/isSkipped",
        "/answer/1/isSkipped",
        "/answer/3/questionId",
        "/answer",
        "/answer",
    ]
    assert service.run(run_id) == before
    assert answer(service, run_id, FIRST)["receipt"]["effect"] == "applied"
    waiting = service.run(run_id)
    assert answer(service, run_id, {"isConfirmed": "yes"})["error"]["code"] == "INVALID_REQUEST"
    assert service.run(run_id) == waiting


@pytest.mark.rule("H6")
def test_an_agent_may_bring_the_answers_but_not_the_last_word(service: Service) -> None:
    run_id = asked(service)
    agent = replace(service.caller, source=Source.AGENT_IDE, entry="/mcp")
    assert answer(service, run_id, FIRST, caller=agent)["receipt"]["status"] == "accepted"
    waiting = service.run(run_id)
    refused = answer(service, run_id, {"isConfirmed": True}, caller=agent)
    assert refused["error"]["code"] == "FORBIDDEN"
    assert "receipt" not in refused
    assert service.run(run_id) == waiting
    assert answer(service, run_id, {"isConfirmed": True})["run"]["status"] == "queued"
    assert service.run(run_id)["outcome"] == "accepted"


@pytest.mark.rule("R11", "H3")
def test_a_run_that_waits_is_cancelled_at_once_and_its_question_is_over(service: Service) -> None:
    run_id = asked(service)
    action = service.run(run_id)["pendingAction"]["id"]
    cancelled = service.operate("cancel_run", runId=run_id)["run"]
    assert cancelled["status"] == "cancelled"
    assert "pendingAction" not in cancelled
    late = service.operate("answer_ask", runId=run_id, actionId=action, answer=FIRST)
    assert (late["error"]["code"], late["receipt"]["status"]) == ("CONFLICT", "rejected")
    service.work()
    assert service.run(run_id) == cancelled
    assert service.call("get_record", recordId=f"review-{run_id}-1") == {"record": None}


@pytest.mark.rule("R9", "R10", "H7")
def test_a_pause_in_a_wait_holds_after_the_answer_and_a_resume_asks_nothing_again(service: Service) -> None:
    run_id = asked(service)
    pausing = service.operate("pause_run", runId=run_id)["run"]
    assert (pausing["status"], pausing["pauseRequested"]) == ("waiting", True)
    answer(service, run_id, FIRST)
    paused = service.run(run_id)
    assert (paused["status"], paused["pauseRequested"], paused["boundary"]) == ("paused", False, 1)
    assert paused["cursor"]["step"] == "ask"
    service.operate("resume_run", runId=run_id, expectedRevision=paused["revision"])
    service.work()
    waiting = service.run(run_id)
    assert (waiting["status"], waiting["cursor"]["step"]) == ("waiting", "approve")
    assert StepAttempt.objects.filter(run_id=run_id, step="ask").count() == 3, "initialize, ask, and the answer"
