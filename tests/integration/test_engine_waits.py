"""Runs that wait: for a person, for a time, for whoever carries out an Agent Step (R2, R15, H7)."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from apps.core import clock
from apps.core.caller import Source
from apps.ledger.models import Event, Operation
from apps.runs.models import Run, State, StepAttempt
from apps.runs.services.leasing import Leased
from apps.runs.services.sweeping import sweep
from tests.conftest import Service
from tests.integration.engine_work import lines

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.rule("H1", "H2", "H3", "H6", "R2")
def test_questions_and_confirmations_wait_without_a_worker_and_go_on_with_the_answer(service: Service) -> None:
    run_id = service.finish(do=[{"ending": "ask", "only_person": True}, {"ending": "again"}, {"ending": "confirm"}])[
        "runId"
    ]
    action = service.run(run_id)["pendingAction"]
    assert action["kind"] == "questions"
    assert action["onlyPerson"] is True
    wrong = service.operate("answer_ask", runId=run_id, actionId=action["id"], answer=[{"questionId": "x"}])
    assert wrong["error"]["code"] == "INVALID_REQUEST"
    assert {i["path"] for i in wrong["error"]["validation"]["issues"]} >= {"/answer/0/questionId", "/answer"}
    answer = [{"questionId": "q", "isSkipped": False, "answer": " as given "}]
    agent = replace(service.caller, source=Source.AGENT_IDE, entry="/mcp")
    identity = {"operationId": "0198c1f2-7c7e-7000-8000-000000000000", "serviceInstanceId": service.instance_id}
    forbidden = service.call("answer_ask", caller=agent, **identity, runId=run_id, actionId=action["id"], answer=answer)
    assert forbidden["error"]["code"] == "FORBIDDEN"
    assert Operation.objects.filter(kind="answer_ask").count() == 0
    service.operate("answer_ask", runId=run_id, actionId=action["id"], answer=answer)
    late = service.operate("answer_ask", runId=run_id, actionId=action["id"], answer=answer)
    assert late["error"]["code"] == "CONFLICT"
    service.work()
    confirmation = service.run(run_id)["pendingAction"]
    assert confirmation["kind"] == "confirmation"
    assert confirmation["request"] == {"context": "Go **on**?"}
    service.operate("answer_ask", runId=run_id, actionId=confirmation["id"], answer={"isConfirmed": False})
    service.work()
    assert service.run(run_id)["status"] == "completed"
    trail = State.objects.order_by("-id").first()
    assert trail is not None
    assert trail.data["trail"] == ["act:ask", "answered: as given ", "act:confirm", "confirmed:False"]
    answered = Event.objects.filter(type="ActionAnswered").order_by("id").first()
    assert answered is not None
    assert answered.data["answeredBy"] == {"principal": "credential:test", "source": "cli", "via": "cli"}


@pytest.mark.rule("FR-A1", "FR-A11")
def test_a_sleep_is_a_due_time_in_the_ledger_and_fires_once(service: Service, tmp_path: Path) -> None:
    effects = tmp_path / "effects"
    run_id = service.start(do=[{"ending": "sleep"}, {"ending": "done"}], effects=str(effects))
    service.work()
    # Whatever zone it was said in, the ledger keeps the instant; at a clock change it exists once.
    twice = dt.datetime(2026, 10, 25, 2, 30, tzinfo=ZoneInfo("Europe/Paris"))
    Run.objects.filter(pk=run_id, status="queued").update(due_at=twice)
    sweep(now=clock.now())
    sweep(now=clock.now())
    service.work()
    service.work()
    run = service.run(run_id)
    assert run["status"] == "completed"
    assert len(lines(effects)) == 2
    ended = StepAttempt.objects.filter(run_id=run_id).values_list("started_at", "ended_at")
    assert all(start <= end for start, end in ended)


class Recording:
    """An executor that takes every call and carries out none."""

    def __init__(self) -> None:
        self.opened: list[tuple[str, int]] = []

    def not_ready_because(self, project_id: Any, graph: Any) -> str | None:
        return None

    def open_call(self, leased: Leased, *, now: dt.datetime) -> None:
        self.opened.append((str(leased.run_id), leased.fence))

    def cancel_call(self, run_id: Any, *, now: dt.datetime) -> list[Any]:
        return []


@pytest.mark.rule("R15")
def test_an_agent_step_that_is_due_goes_to_the_runs_executor_under_its_fence(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    from apps.core.caller import AgentExecutor
    from apps.runs.services import executors

    executor = Recording()
    monkeypatch.setattr(executors, "_executors", {AgentExecutor.SERVICE_MODEL: executor})
    assert service.call("status")["service"]["ready"] is True
    run_id = service.operate("run", loomName="agentic", input="x")["run"]["runId"]
    service.work()
    assert executor.opened == [(run_id, Run.objects.get(pk=run_id).fence)]
    assert service.run(run_id)["status"] == "running"


@pytest.mark.rule("R14", "R15")
def test_an_agent_step_whose_executor_went_away_pauses_the_run(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    from apps.core.caller import AgentExecutor
    from apps.runs.services import executors

    monkeypatch.setattr(executors, "_executors", {AgentExecutor.SERVICE_MODEL: Recording()})
    run_id = service.operate("run", loomName="agentic", input="x")["run"]["runId"]
    monkeypatch.setattr(executors, "_executors", {})
    service.work()
    paused = service.run(run_id)
    assert (paused["status"], paused["lastError"]["code"]) == ("paused", "MODEL_REQUEST_FAILED")
