"""Agent Steps that a model of the service carries out: its Tools, its usage, what it may come to."""

# ruff: noqa: F811 - the fixtures come from model_work
from __future__ import annotations

import datetime as dt
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from background_agents import Client

from apps.agent_sessions.domain.programs import program_digest
from apps.agent_sessions.models import ModelUsage
from apps.agent_sessions.runtime import wires
from apps.agent_sessions.runtime.addresses import AddressRefused
from apps.agent_sessions.runtime.tasks import program_of
from apps.core import clock
from apps.core.caller import Source
from apps.ledger.models import Event
from apps.looms.services.releases import load_release
from apps.runs.models import Run, StepAttempt
from tests.conftest import Service
from tests.integration.model_work import KEY, counting, events, give_key, provider, usage  # noqa: F401
from tests.loopback_provider import INPUT_TOKENS, SENTINEL, Answer, Provider, calls, fails, hands_in

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.rule("B8", "R15", "A4", "A6")
@pytest.mark.parametrize("source", [Source.CLI, Source.STUDIO])
def test_a_model_carries_out_an_agent_step_with_its_tools(
    service: Service, counting: None, provider: Provider, source: Source
) -> None:
    service.caller = replace(service.caller, source=source)
    give_key(service)
    provider.answers = [
        calls("read_skill_file", {"id": "counting/table.txt"}),
        calls("add", {"number": "two"}),
        calls("add", {"number": -1}),
        calls("add", {"number": 2}),
        calls("finish", {}),
        calls("add", {"number": 40}),
        hands_in({"outcome": "nowhere"}),
        hands_in({"outcome": "done", "words": "two"}),
    ]
    run = service.finish("counting")
    assert (run["status"], run["outcome"]) == ("completed", "done"), run
    assert run["usage"] == usage(8, 5)
    place = {"loomName": "counting", "stageName": "only"}
    assert service.call("get_artifact", **place)["artifact"]["data"] == {"number": 2, "words": "two"}
    sent = [str(seen.body) for seen in provider.requests]
    assert "1 2 3" in sent[1]
    for number, told in {2: "/number", 3: "more than nothing", 6: "The Tools are closed", 7: "/outcome"}.items():
        assert told in sent[number], number
    assert provider.requests[0].headers["authorization"] == f"Bearer {KEY}"
    attempt = StepAttempt.objects.get(run_id=run["runId"], step="think", kind="step")
    assert (attempt.status, attempt.usage) == ("completed", usage(8, 5))
    assert StepAttempt.objects.get(run_id=run["runId"], step="tell").usage is None
    happened = events(run["runId"])
    started, settled = happened.count("ToolCallStarted"), happened.count("ToolCallSettled")
    assert (happened.count("AgentCallOpened"), started, settled, happened.count("AgentCallClosed")) == (1, 3, 3, 1)
    opened = Event.objects.get(run_id=run["runId"], type="AgentCallOpened").data
    loom = load_release(run["releaseDigest"])
    program = program_of(loom.agents["only", "think"], model="loop/test-model")
    assert (opened["model"], opened["programDigest"]) == ("loop/test-model", program_digest(program))
    day = ModelUsage.objects.get(project_id=service.caller.project_id, model="loop/test-model")
    assert (day.sessions, day.requests, day.input_tokens, day.tool_calls) == (1, 8, 8 * INPUT_TOKENS, 5)


@pytest.mark.rule("B8")
def test_usage_adds_up_over_steps_and_can_be_seen_while_one_runs(
    service: Service, counting: None, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    give_key(service)
    provider.answers = [
        calls("add", {"number": 1}),
        hands_in({"outcome": "again"}),
        calls("add", {"number": 1}),
        hands_in({"outcome": "done"}),
    ]
    run_id = service.start("counting")
    seen: list[Any] = []
    ask = wires.ask

    async def watched(*arguments: Any, **more: Any) -> Any:
        seen.append(usages[run_id]())
        return await ask(*arguments, **more)

    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool:
        usages = {run_id: lambda: pool.submit(_shown_usage, run_id).result()}
        monkeypatch.setattr("apps.agent_sessions.runtime.rounds.ask", watched)
        service.work()
    # A request counts when it goes out, its tokens when they are known.
    assert seen == [{**usage(number, made), "requests": number + 1} for number, made in enumerate((0, 1, 1, 2))]
    run = service.run(run_id)
    assert (run["status"], run["usage"]) == ("completed", usage(4, 2))
    attempts = StepAttempt.objects.filter(run_id=run_id, step="think", kind="step").order_by("step_seq")
    assert [one.usage for one in attempts] == [usage(2, 1), usage(2, 1)]


@pytest.mark.rule("A4", "B2", "B8")
def test_an_asynchronous_tool_may_ask_whether_it_is_cancelled_wherever_it_runs(
    service: Service, counting: None, provider: Provider, loom_paths: Path
) -> None:
    give_key(service)
    code = loom_paths / "counting" / "steps.py"
    text = code.read_text().replace("def add(", "async def add(")
    code.write_text(text.replace("    if number < 0:", "    assert not call.cancelled()\n    if number < 0:"))
    provider.answers = [calls("add", {"number": 2}), hands_in({"outcome": "done", "words": "two"})] * 2
    assert service.finish("counting")["status"] == "completed"
    agent = Client(service)
    agent.start(agent="counting/counter", model="loop/test-model", input={})
    agent.work()
    assert agent.status()["state"] == "succeeded"
    told = [seen.body["messages"][-1]["content"] for seen in provider.requests]
    assert (told[1], told[3]) == ("2", "2")


@pytest.mark.rule("B8", "B3")
def test_a_request_that_never_went_out_is_taken_back_from_the_day_that_it_was_counted_for(
    service: Service, counting: None, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    give_key(service)
    moments = iter([dt.datetime(2027, 1, 1, 23, 59, 59, tzinfo=dt.UTC), dt.datetime(2027, 1, 2, tzinfo=dt.UTC)])
    times = [next(moments)]
    monkeypatch.setattr(clock, "now", lambda: times[-1])

    async def refused_after_midnight(*_: Any, **__: Any) -> Any:
        times.append(next(moments))
        raise AddressRefused("nothing was sent")

    monkeypatch.setattr("apps.agent_sessions.runtime.rounds.ask", refused_after_midnight)
    run = service.finish("counting")
    assert (run["status"], run["lastError"]["message"]) == ("failed", "nothing was sent")
    assert list(ModelUsage.objects.values_list("day", "sessions", "requests")) == [(dt.date(2027, 1, 1), 1, 0)]


def _shown_usage(run_id: str) -> Any:
    from django.db import connection

    try:
        return Run.objects.get(pk=run_id).usage
    finally:
        connection.close()


ENDS: list[tuple[str, list[Answer], str, str]] = [
    ("key refused", [fails(401, "authentication_error")], "MODEL_REQUEST_FAILED", "refused the key"),
    ("output never fits", [hands_in({"outcome": "nowhere"})], "AGENT_OUTPUT_INVALID", "/outcome"),
    ("never ends", [calls("add", {"number": 1})], "AGENT_FAILED", "turns"),
]


@pytest.mark.rule("B8", "E6")
@pytest.mark.parametrize(("answers", "code", "told"), [one[1:] for one in ENDS], ids=[one[0] for one in ENDS])
def test_a_model_that_comes_to_nothing_fails_the_run_and_says_why(
    service: Service, counting: None, provider: Provider, answers: list[Answer], code: str, told: str
) -> None:
    give_key(service)
    provider.answers = answers
    run = service.finish("counting")
    assert (run["status"], run["lastError"]["code"]) == ("failed", code)
    assert told in run["lastError"]["message"]
    assert SENTINEL not in str(run) and KEY not in str(run)
    assert run["usage"]["requests"] == len(provider.requests)
    assert StepAttempt.objects.get(run_id=run["runId"], step="think", kind="step").status == "failed"
    assert events(run["runId"])[-2:] == ["AgentCallClosed", "RunFailed"]


@pytest.mark.rule("R7", "A8")
def test_an_outcome_without_a_route_goes_back_to_the_model(
    service: Service, counting: None, provider: Provider, loom_paths: Path
) -> None:
    file = loom_paths / "counting" / "steps.py"
    file.write_text(file.read_text().replace('outcome: Literal["done", "again"]', "outcome: str"))
    give_key(service)
    provider.answers = [hands_in({"outcome": "nowhere"}), hands_in({"outcome": "done"})]
    run = service.finish("counting")
    assert (run["status"], run["usage"]) == ("completed", usage(2, 0))
    assert "nowhere" in str(provider.requests[1].body["messages"][-1])
