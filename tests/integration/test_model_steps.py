"""Agent Steps that a model of the service carries out: Tools, usage, errors, a lost worker, a moved fence."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from background_agents import Client

from apps.agent_sessions.domain.programs import program_digest
from apps.agent_sessions.models import ModelUsage
from apps.agent_sessions.runtime import models, wires
from apps.agent_sessions.runtime.addresses import AddressRefused
from apps.agent_sessions.runtime.tasks import program_of
from apps.agent_sessions.services.provider_keys import set_provider_key
from apps.core import clock
from apps.core.caller import Source
from apps.ledger.models import Event
from apps.looms.services import releases
from apps.looms.services.releases import load_release
from apps.runs.models import Run, StepAttempt
from apps.runs.services import worker
from apps.runs.services.interrupting import end_expired_leases, end_overdue_segments
from tests.conftest import Service
from tests.loopback_provider import (
    INPUT_TOKENS,
    OUTPUT_TOKENS,
    SENTINEL,
    Answer,
    Provider,
    calls,
    fails,
    hands_in,
    loopback_provider,
)

pytestmark = pytest.mark.django_db(transaction=True)
KEY = "sk-of-the-project-0815"
_MINUTE = dt.timedelta(minutes=1)


@pytest.fixture
def provider(settings: Any, tmp_path: Path) -> Iterator[Provider]:
    """Agent Steps of role `thinking` are done by a provider on loopback, the others by `offline`."""
    with loopback_provider() as found:
        file = tmp_path / "models.yaml"
        file.write_text(
            f"""
providers:
  loop:
    kind: openai
    base_url: {found.base_url("openai")}
    models: [test-model]
allow_hosts: ["{found.host}"]
roles: {{thinking: loop/test-model}}
"""
        )
        settings.LOOMSVC = replace(settings.LOOMSVC, models_file=file)
        yield found


LOOM = """
loom: counting
title: Counting
description: An agent counts.
entry: only
stages:
  only:
    state: steps:Count
    initialize: steps:begin
    entry: think
    steps:
      think:
        agent: counter
        model: thinking
        output: steps:Counted
        tools: [steps:add, steps:finish]
        end_tool: steps:finish
        skills: [counting]
        on: {done: tell, again: think}
      tell:
        code: steps:tell
        on: {done: end}
    on: {done: end}
"""
STEPS = '''
from typing import Literal
from pydantic import BaseModel
from loomsvc.authoring import CodeStep, StageContext, ToolCall, ToolError, tool


class Count(BaseModel):
    number: int = 0
    finished: bool = False


class Counted(BaseModel):
    outcome: Literal["done", "again"]
    words: str = ""


def begin(context: StageContext) -> Count:
    return Count()


@tool
def add(call: ToolCall[Count], number: int) -> int:
    """Add to the number."""
    if number < 0:
        raise ToolError("Add what is more than nothing.")
    call.update(number=call.state.number + number)
    return call.state.number


@tool
def finish(call: ToolCall[Count]) -> None:
    """Say that it is over."""
    call.update(finished=True)


def tell(step: CodeStep[Count]) -> str:
    step.put_artifact({"number": step.state.number, "words": step.previous.words})
    return "done"
'''


@pytest.fixture
def counting(loom_paths: Path) -> None:
    """A Loom whose agent has Tools, an end Tool and a Skill with a file."""
    folder = loom_paths / "counting"
    for name, text in {
        "loom.yaml": LOOM,
        "steps.py": STEPS,
        "agents/counter.md": "---\nname: Counter\ndescription: Counts.\n---\nCount with the Tools.\n",
        "skills/counting/SKILL.md": "---\nname: Counting\ndescription: How to count.\n---\nOne by one.\n",
        "skills/counting/table.txt": "1 2 3",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def give_key(service: Service) -> None:
    set_provider_key(project_id=service.caller.project_id, provider="loop", key=KEY, by="test", now=clock.now())


def usage(requests: int, tool_calls: int) -> dict[str, int]:
    tokens = requests * INPUT_TOKENS, requests * OUTPUT_TOKENS
    return {
        "requests": requests,
        "inputTokens": tokens[0],
        "outputTokens": tokens[1],
        "totalTokens": sum(tokens),
        "toolCalls": tool_calls,
    }


def events(run_id: str) -> list[str]:
    return list(Event.objects.filter(run_id=run_id).order_by("seq").values_list("type", flat=True))


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


@pytest.mark.rule("B2", "B6", "B8")
@pytest.mark.parametrize("script", [b"agents: [", b"\xff"])
def test_a_script_for_the_offline_model_that_cannot_be_read_is_in_no_other_models_way(
    service: Service, counting: None, provider: Provider, loom_paths: Path, script: bytes
) -> None:
    give_key(service)
    (loom_paths / "counting" / "offline.yaml").write_bytes(script)
    provider.answers = [hands_in({"outcome": "done"})]
    assert service.finish("counting")["status"] == "completed"
    agent = Client(service)
    agent.start(agent="counting/counter", model="loop/test-model", input={})
    agent.work()
    assert agent.status()["state"] == "succeeded"
    agent.start(agent="counting/counter", model="offline", input={})
    agent.work()
    assert (agent.status()["state"], "offline.yaml" in agent.status()["error"]["message"]) == ("failed", True)


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


@pytest.mark.rule("R15")
def test_a_run_whose_model_lacks_its_key_is_rejected_and_leaves_its_receipt_only(
    service: Service, counting: None, provider: Provider
) -> None:
    refused = service.operate("run", loomName="counting", input="x")
    assert refused["error"]["code"] == "UNAVAILABLE"
    assert "loop/test-model needs a key" in refused["error"]["message"]
    assert refused["receipt"]["status"] == "rejected"
    assert not Run.objects.exists()
    # Another Loom's Agent Step has another role, and so another model.
    assert service.operate("run", loomName="agentic", input="x")["receipt"]["status"] == "accepted"
    give_key(service)
    assert service.operate("run", loomName="counting", input="x")["receipt"]["status"] == "accepted"


@pytest.mark.rule("R15")
def test_a_key_that_goes_away_pauses_the_run_before_anything_is_sent(
    service: Service, counting: None, provider: Provider
) -> None:
    from apps.agent_sessions.services.provider_keys import remove_provider_key

    give_key(service)
    provider.answers = [hands_in({"outcome": "done"})]
    run_id = service.start("counting")
    remove_provider_key(project_id=service.caller.project_id, provider="loop")
    service.work()
    paused = service.run(run_id)
    assert (paused["status"], paused["lastError"]["code"]) == ("paused", "MODEL_REQUEST_FAILED")
    assert provider.requests == []
    give_key(service)
    service.operate("resume_run", runId=run_id, expectedRevision=paused["revision"])
    service.work()
    assert service.run(run_id)["status"] == "completed"


@pytest.mark.rule("R15")
def test_without_a_file_the_offline_model_does_every_agent_step(service: Service) -> None:
    assert service.call("status")["service"]["ready"] is True
    run = service.finish("agentic")
    assert (run["status"], run["outcome"]) == ("completed", "done")
    assert run["usage"]["requests"] == 1


@pytest.mark.rule("R15")
def test_a_file_of_models_that_cannot_be_used_is_said_to_every_source_that_needs_it(
    service: Service, settings: Any, tmp_path: Path
) -> None:
    file = tmp_path / "models.yaml"
    file.write_text("providers: {p: {kind: openai, base_url: 'file:///etc/passwd', models: [m]}}\n")
    settings.LOOMSVC = replace(settings.LOOMSVC, models_file=file)
    said = service.call("status")["service"]
    assert said["ready"] is False
    assert "models.yaml" in said["notReadyBecause"]
    assert str(tmp_path) not in said["notReadyBecause"]
    refused = service.operate("run", loomName="agentic", input="x")
    assert refused["error"]["code"] == "UNAVAILABLE"
    there = replace(service.caller, source=Source.AGENT_IDE, entry="/mcp")
    assert service.call("status", there)["service"]["ready"] is True


@pytest.mark.rule("R15", "B8")
def test_no_policy_falls_back_to_another(service: Service, counting: None, provider: Provider) -> None:
    there = replace(service.caller, source=Source.AGENT_IDE, entry="/mcp")
    identity = {"operationId": "0198c1f2-7c7e-7000-8000-000000000009", "serviceInstanceId": service.instance_id}
    run_id = service.call("run", there, **identity, loomName="counting", input="x")["run"]["runId"]
    service.work()
    waiting = service.run(run_id)
    assert (waiting["status"], waiting["execution"]["agentExecutor"]) == ("waiting", "mcp_client")
    assert provider.requests == []
    give_key(service)
    provider.answers = [hands_in({"outcome": "done"})]
    mine = service.finish("counting")
    assert (mine["status"], "pendingAgentCall" in mine) == ("completed", False)


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
    file.write_text(file.read_text().replace("model: thinking", "model: thinking\n        timeout: 0.3s"))
    give_key(service)
    provider.answers = [calls("add", {"number": 1}, seconds=0.2)]
    run = service.finish("counting")
    assert (run["status"], run["lastError"]["code"]) == ("failed", "STEP_TIMEOUT")
    assert 1 <= len(provider.requests) <= 2


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


@pytest.mark.rule("B6", "B8")
def test_intent_runs_to_its_end_with_the_offline_model(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.setenv("LOOM_INTENT_ROOTS", str(tmp_path))
    # A Release keeps the settings that it was loaded with in this process.
    monkeypatch.setattr(releases, "_loaded", {})
    run_id = service.start("intent", wish="Say hello.", folder=str(folder))
    for answer in ([{"questionId": "title", "isSkipped": False, "answer": "A wish"}], *[{"isConfirmed": True}] * 2):
        service.work()
        waiting = service.run(run_id)
        assert waiting["status"] == "waiting", waiting
        service.operate("answer_ask", runId=run_id, actionId=waiting["pendingAction"]["id"], answer=answer)
    service.work()
    run = service.run(run_id)
    assert (run["status"], run["outcome"]) == ("completed", "validated"), run
    assert (folder / "WISH.md").read_text() == "# A wish\n\nSay hello.\n"
    assert run["usage"]["requests"] == 15
    report = service.call("get_artifact", loomName="intent", stageName="validation")["artifact"]["data"]
    assert report["verdict"] == "validated"


def test_the_catalogue_is_read_once(provider: Provider) -> None:
    assert models.catalogue() is models.catalogue()
