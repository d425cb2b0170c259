"""Agent Steps of a model that are cut off: a lost worker, a moved fence, a pause, a timeout (R9, R11 to R13)."""

# ruff: noqa: F811 - the fixtures come from model_work
from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest
from background_agents import Client

from apps.agent_sessions.models import ModelUsage
from apps.agent_sessions.runtime import wires
from apps.core import clock
from apps.runs.models import Run, StepAttempt
from apps.runs.services import worker
from apps.runs.services.interrupting import end_expired_leases, end_overdue_segments
from tests.conftest import Service
from tests.integration.model_work import counting, events, give_key, provider, usage  # noqa: F401
from tests.loopback_provider import Answer, Provider, calls, hands_in

pytestmark = pytest.mark.django_db(transaction=True)
_MINUTE = dt.timedelta(minutes=1)


class Lost(BaseException):
    """A worker that is gone."""


def lose_worker_at(provider_calls: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker dies instead of sending this request."""
    made: list[int] = []
    ask = wires.ask

    async def dies(*arguments: Any, **more: Any) -> Any:
        made.append(1)
        if len(made) == provider_calls:
            raise Lost
        return await ask(*arguments, **more)

    monkeypatch.setattr("apps.agent_sessions.runtime.rounds.ask", dies)


class Replaced(BaseException):
    """In place of the end of a process."""


@pytest.mark.rule("R12", "B2", "B8")
def test_a_worker_process_that_a_tool_holds_a_thread_of_is_replaced_once_its_work_has_landed(
    service: Service, counting: None, provider: Provider, loom_paths: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    give_key(service)
    code = loom_paths / "counting" / "steps.py"
    text = code.read_text().replace("@tool\ndef add(", "held = threading.Event()\n\n\n@tool(timeout='50ms')\ndef add(")
    text = text.replace("    if number < 0:", "    held.wait(5)\n    if number < 0:")
    code.write_text(f"import threading\n{text}")
    provider.answers = [calls("add", {"number": 2}), hands_in({"outcome": "done", "words": "two"})] * 2

    def replaced(code: int) -> None:
        raise Replaced

    monkeypatch.setattr(worker, "_lost_threads", 0)
    monkeypatch.setattr(worker, "_is_child", lambda: True)
    monkeypatch.setattr(worker.os, "_exit", replaced)
    run_id = service.start("counting")
    with pytest.raises(Replaced):
        service.work()
    assert StepAttempt.objects.get(run_id=run_id, step="think", kind="step").status == "completed"
    monkeypatch.setattr(worker, "_lost_threads", 0)
    agent = Client(service)
    agent.start(agent="counting/counter", model="loop/test-model", input={})
    with pytest.raises(Replaced):
        agent.work()
    assert agent.status()["state"] == "succeeded"


@pytest.mark.rule("R13", "B9", "F26")
def test_a_worker_lost_once_a_request_may_have_gone_out_ends_the_run_and_sends_nothing_again(
    service: Service, counting: None, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    give_key(service)
    provider.answers = [calls("add", {"number": 1}), hands_in({"outcome": "done"})]
    run_id = service.start("counting")
    lose_worker_at(2, monkeypatch)
    with pytest.raises(Lost):
        service.work()
    Run.objects.filter(pk=run_id).update(lease_expires_at=clock.now() - _MINUTE)
    assert end_expired_leases(now=clock.now()) == 1
    service.work()
    run = service.run(run_id)
    assert (run["status"], run["lastError"]["code"]) == ("failed", "RUN_INTERRUPTED")
    assert "nothing is sent again" in run["lastError"]["message"]
    # The second one counts: nobody can know whether it went out.
    assert run["usage"] == {**usage(1, 1), "requests": 2}
    assert len(provider.requests) == 1
    attempt = StepAttempt.objects.get(run_id=run_id, step="think", kind="step")
    assert (attempt.status, attempt.usage) == ("indeterminate", run["usage"])


@pytest.mark.rule("R13")
def test_a_worker_lost_before_any_request_costs_nothing(
    service: Service, counting: None, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    from apps.agent_sessions.services import agent_steps

    give_key(service)
    provider.answers = [hands_in({"outcome": "done"})]
    run_id = service.start("counting")
    with monkeypatch.context() as patched:
        patched.setattr(agent_steps._Step, "_goes_out", _die)
        with pytest.raises(Lost):
            service.work()
    Run.objects.filter(pk=run_id).update(lease_expires_at=clock.now() - _MINUTE)
    end_expired_leases(now=clock.now())
    service.work()
    run = service.run(run_id)
    assert (run["status"], run["usage"]) == ("completed", usage(1, 0))
    assert len(provider.requests) == 1
    assert ModelUsage.objects.get().sessions == 1, "one Step, however many workers took it up"


def _die(_: Any) -> bool:
    raise Lost


@pytest.mark.rule("R13")
def test_a_new_instance_ends_a_model_call_that_was_in_flight(
    service: Service, counting: None, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    give_key(service)
    provider.answers = [hands_in({"outcome": "done"})]
    run_id = service.start("counting")
    lose_worker_at(1, monkeypatch)
    with pytest.raises(Lost):
        service.work()
    service.reopen()
    run = service.run(run_id)
    assert (run["status"], run["lastError"]["code"], run["historical"]) == ("failed", "RUN_INTERRUPTED", True)
    service.work()
    assert provider.requests == []


@pytest.mark.rule("R11", "B9")
def test_a_cancelled_run_stops_its_model_at_the_next_boundary(
    service: Service, counting: None, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    from apps.agent_sessions.services import agent_steps

    give_key(service)
    twice = Answer(calls=(("add", {"number": 1}), ("add", {"number": 1})))
    provider.answers = [twice, hands_in({"outcome": "done"})]
    ran: list[str] = []
    run_id = service.start("counting")
    run_tool = agent_steps.run_tool

    def cancels(request: Any) -> Any:
        ran.append(request.tool_call_id)
        service.operate("cancel_run", runId=run_id)
        assert request.cancelled()
        return run_tool(request)

    monkeypatch.setattr(agent_steps, "run_tool", cancels)
    service.work()
    run = service.run(run_id)
    assert (run["status"], run["usage"]) == ("cancelled", usage(1, 0))
    assert len(provider.requests) == 1
    assert ran == ["1"], "no Tool is begun after the fence has moved"
    assert "ToolCallSettled" not in events(run_id)
    stored = Run.objects.get(pk=run_id)
    assert stored.state is not None and stored.state.data["number"] == 0


@pytest.mark.rule("R9")
def test_a_pause_takes_effect_when_the_model_has_handed_in_its_result(
    service: Service, counting: None, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    from apps.agent_sessions.services import agent_steps

    give_key(service)
    provider.answers = [calls("add", {"number": 1}), hands_in({"outcome": "done"})]
    run_id = service.start("counting")
    run_tool = agent_steps.run_tool

    def pauses(request: Any) -> Any:
        service.operate("pause_run", runId=run_id)
        return run_tool(request)

    monkeypatch.setattr(agent_steps, "run_tool", pauses)
    service.work()
    paused = service.run(run_id)
    assert (paused["status"], len(provider.requests)) == ("paused", 2)
    service.operate("resume_run", runId=run_id, expectedRevision=paused["revision"])
    service.work()
    assert service.run(run_id)["status"] == "completed"
    assert len(provider.requests) == 2


@pytest.mark.rule("R12")
def test_an_agent_step_past_its_timeout_fails_the_run(
    service: Service, counting: None, provider: Provider, loom_paths: Path
) -> None:
    file = loom_paths / "counting" / "loom.yaml"
    file.write_text(file.read_text().replace("model: thinking", "model: thinking\n        timeout: 2s"))
    give_key(service)
    provider.answers = [calls("add", {"number": 1}), hands_in({"outcome": "done"}, seconds=60)]
    run = service.finish("counting")
    assert (run["status"], run["lastError"]["code"]) == ("failed", "STEP_TIMEOUT")
    assert len(provider.requests) == 2


@pytest.mark.rule("R12")
def test_the_sweep_ends_a_model_step_whose_worker_does_not(
    service: Service, counting: None, provider: Provider, loom_paths: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = loom_paths / "counting" / "loom.yaml"
    file.write_text(file.read_text().replace("model: thinking", "model: thinking\n        timeout: 10m"))
    give_key(service)
    run_id = service.start("counting")
    lose_worker_at(1, monkeypatch)
    with pytest.raises(Lost):
        service.work()
    assert end_overdue_segments(now=clock.now()) == 0
    Run.objects.filter(pk=run_id).update(deadline_at=clock.now() - _MINUTE)
    assert end_overdue_segments(now=clock.now()) == 1
    assert service.run(run_id)["lastError"]["code"] == "STEP_TIMEOUT"
