"""Reasoning against a provider on loopback, through the real clients: each way of failing has a clear end."""

from __future__ import annotations

import gzip
import json
import time
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest

from apps.agent_sessions.domain.programs import Program, ProgramTool
from apps.agent_sessions.runtime.ended import Access, Cancelled, Failed, Limits, Stopped, Succeeded, ToolRefused, Usage
from apps.agent_sessions.runtime.reasoning import reason
from tests.loopback_provider import (
    FAILURES,
    INPUT_TOKENS,
    OUTPUT_TOKENS,
    SENTINEL,
    Answer,
    Provider,
    body_of,
    calls,
    fails,
    hands_in,
    loopback_provider,
    says,
)

KEY = "sk-sentinel-of-a-key-4711"
SCHEMA = {
    "type": "object",
    "properties": {"answer": {"type": "integer"}},
    "required": ["answer"],
    "additionalProperties": False,
}
ADD = ProgramTool(
    "add",
    "Add two numbers.",
    {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}},
    {},
)
PROGRAM = Program("loop/test-model", "Work it out.", tools=(ADD,), output_schema=SCHEMA)
QUICK = Limits(turns=6, seconds=20, request_seconds=5, output_repairs=2, retry_seconds=0.05, retry_wait_seconds=0.5)
WIRES = [("openai", False), ("openai", True), ("anthropic", False), ("anthropic", True)]


@pytest.fixture
def provider() -> Iterator[Provider]:
    with loopback_provider() as found:
        yield found


@pytest.fixture(params=WIRES, ids=lambda wire: wire[0] + (" streamed" if wire[1] else ""))
def wire(request: pytest.FixtureRequest) -> tuple[str, bool]:
    return request.param


def access_to(provider: Provider, wire: tuple[str, bool] = ("openai", False), **changes: Any) -> Access:
    kind, stream = wire
    given: dict[str, Any] = {
        "kind": kind,
        "provider": "loop",
        "model": "test-model",
        "base_url": provider.base_url(kind),
        "api_key": KEY,
        "allowed_hosts": frozenset({"127.0.0.1"}),
        "stream": stream,
    }
    return Access(**{**given, **changes})


class Caller:
    """What a caller sees: how often it was asked before a request, and every report."""

    def __init__(self, stop_before: int = 1000) -> None:
        self.asked = 0
        self.reports: list[Usage] = []
        self.added: list[dict[str, Any]] = []
        self._stop_before = stop_before

    def before_request(self) -> bool:
        self.asked += 1
        return self.asked < self._stop_before

    def add(self, arguments: dict[str, Any]) -> Any:
        self.added.append(arguments)
        if "a" not in arguments:
            raise ToolRefused("Send `a` and `b`.")
        return arguments["a"] + arguments["b"]


def work(provider: Provider, wire: tuple[str, bool], caller: Caller | None = None, **changes: Any) -> Any:
    caller = caller or Caller()
    given: dict[str, Any] = {
        "tools": {"add": caller.add},
        "access": access_to(provider, wire),
        "limits": QUICK,
        "before_request": caller.before_request,
        "report": caller.reports.append,
    }
    return reason(PROGRAM, {"a": 2, "b": 3}, **{**given, **changes})


@pytest.mark.rule("B6")
def test_a_tool_is_called_and_the_output_is_what_the_schema_asks_for(
    provider: Provider, wire: tuple[str, bool]
) -> None:
    provider.answers = [calls("add", {"a": 2, "b": 3}), hands_in({"answer": 5})]
    caller = Caller()
    ended = work(provider, wire, caller)
    whole = Usage(2, 2 * INPUT_TOKENS, 2 * OUTPUT_TOKENS, 1)
    assert ended == Succeeded({"answer": 5}, whole)
    assert caller.added == [{"a": 2, "b": 3}]
    assert [one.requests for one in caller.reports] == [1, 1, 2]
    assert [one.tool_calls for one in caller.reports] == [0, 1, 1]
    assert [seen.is_streamed for seen in provider.requests] == [wire[1]] * 2
    sent = str(provider.requests[0].headers)
    assert KEY in sent


@pytest.mark.rule("B6")
def test_an_output_that_does_not_fit_is_corrected(provider: Provider, wire: tuple[str, bool]) -> None:
    provider.answers = [hands_in({"answer": "five"}), says("It is five."), hands_in({"answer": 5})]
    ended = work(provider, wire)
    assert isinstance(ended, Succeeded)
    assert ended.usage.requests == 3
    assert "/answer" in str(provider.requests[1].body)


@pytest.mark.rule("B6")
def test_corrections_are_bounded(provider: Provider, wire: tuple[str, bool]) -> None:
    provider.answers = [hands_in({"answer": "five"})]
    ended = work(provider, wire)
    assert isinstance(ended, Failed)
    assert (ended.code, ended.reason, ended.usage.requests) == ("agent_output_invalid", "output_invalid", 3)
    assert "/answer" in ended.message


@pytest.mark.rule("B6")
def test_a_model_that_goes_on_for_ever_is_ended(provider: Provider, wire: tuple[str, bool]) -> None:
    provider.answers = [calls("add", {"a": 1, "b": 1})]
    ended = work(provider, wire)
    assert isinstance(ended, Failed)
    assert (ended.code, ended.reason) == ("agent_failed", "turn_limit")
    assert ended.usage == Usage(6, 6 * INPUT_TOKENS, 6 * OUTPUT_TOKENS, 6)
    few = Limits(turns=6, tool_calls=2)
    ended = work(provider, wire, limits=few)
    assert isinstance(ended, Failed)
    assert (ended.reason, ended.usage.tool_calls) == ("tool_call_limit", 2)


@pytest.mark.rule("B6", "K19", "FR-H1")
@pytest.mark.parametrize(
    ("answers", "because", "recovery", "requests"), [one[1:] for one in FAILURES], ids=[one[0] for one in FAILURES]
)
def test_each_way_of_failing_ends_clearly_and_repeats_nothing_of_the_provider(
    provider: Provider,
    wire: tuple[str, bool],
    answers: list[Answer],
    because: str,
    recovery: str | None,
    requests: int,
    caplog: pytest.LogCaptureFixture,
) -> None:
    provider.answers = answers
    caller = Caller()
    limits = Limits(turns=3, seconds=20, request_seconds=5, output_repairs=1, retry_seconds=0.02)
    ended = work(provider, wire, caller, limits=limits)
    assert isinstance(ended, Failed)
    assert (ended.code, ended.reason) == ("model_request_failed", because)
    assert (ended.recovery or {}).get("action") == recovery
    assert len(provider.requests) == ended.usage.requests == caller.asked == requests
    assert SENTINEL not in repr(ended) + caplog.text
    assert KEY not in repr(ended) + caplog.text
    assert provider.host not in ended.message


@pytest.mark.rule("B6")
def test_a_rate_limit_is_waited_for_and_each_request_counts(provider: Provider, wire: tuple[str, bool]) -> None:
    provider.answers = [fails(429, "rate_limit_error", Retry_After="0"), hands_in({"answer": 5})]
    caller = Caller()
    ended = work(provider, wire, caller)
    assert ended == Succeeded({"answer": 5}, Usage(2, INPUT_TOKENS, OUTPUT_TOKENS, 0))
    assert caller.asked == 2


@pytest.mark.rule("B6")
def test_a_slow_provider_is_given_up_and_its_request_counts(provider: Provider, wire: tuple[str, bool]) -> None:
    provider.answers = [hands_in({"answer": 5}, seconds=60)]
    began = time.monotonic()
    ended = work(provider, wire, limits=Limits(request_seconds=0.3, seconds=40))
    assert isinstance(ended, Failed)
    assert (ended.reason, ended.usage.requests) == ("request_timed_out", 1)
    assert time.monotonic() - began < 30


@pytest.mark.rule("B6")
def test_the_whole_work_has_its_time(provider: Provider) -> None:
    provider.answers = [calls("add", {"a": 1, "b": 1}), hands_in({"answer": 5}, seconds=60)]
    ended = work(provider, ("openai", False), limits=Limits(seconds=2))
    assert isinstance(ended, Failed)
    assert (ended.code, ended.reason) == ("step_timeout", "time_limit")
    assert ended.usage.requests == 2


@pytest.mark.rule("B9")
def test_nothing_goes_out_once_the_caller_says_stop(provider: Provider, wire: tuple[str, bool]) -> None:
    provider.answers = [calls("add", {"a": 1, "b": 1})]
    ended = work(provider, wire, Caller(stop_before=2))
    assert ended == Cancelled(Usage(1, INPUT_TOKENS, OUTPUT_TOKENS, 1))
    assert len(provider.requests) == 1


@pytest.mark.rule("B9")
def test_a_tool_may_say_that_the_work_is_over(provider: Provider) -> None:
    def lost(_: dict[str, Any]) -> Any:
        raise Stopped

    provider.answers = [calls("add", {"a": 1, "b": 1})]
    ended = work(provider, ("openai", False), tools={"add": lost})
    assert ended == Cancelled(Usage(1, INPUT_TOKENS, OUTPUT_TOKENS, 1))


@pytest.mark.rule("A4")
def test_what_a_tool_refuses_is_read_by_the_model(provider: Provider, wire: tuple[str, bool]) -> None:
    provider.answers = [calls("add", {}), calls("subtract", {"a": 1}), hands_in({"answer": 5})]
    assert isinstance(work(provider, wire), Succeeded)
    assert "Send `a` and `b`." in str(provider.requests[1].body)
    assert "There is no Tool 'subtract'" in json.dumps(provider.requests[2].body)


@pytest.mark.rule("A4")
def test_arguments_that_are_no_json_do_not_reach_the_tool(provider: Provider) -> None:
    provider.answers = [calls("add", '{"a": 1, "b"'), hands_in({"answer": 5})]
    caller = Caller()
    assert isinstance(work(provider, ("openai", False), caller), Succeeded)
    assert caller.added == []
    assert "no JSON object" in str(provider.requests[1].body)


@pytest.mark.rule("A6")
def test_an_end_tool_closes_the_others(provider: Provider) -> None:
    last = ProgramTool("save", "Save it.", {"type": "object"}, {}, is_end_tool=True)
    program = Program("loop/test-model", "Save.", tools=(ADD, last), output_schema=SCHEMA)
    provider.answers = [
        Answer(calls=(("save", {}), ("add", {"a": 1, "b": 1}))),
        hands_in({"answer": 5}),
    ]
    caller = Caller()
    ended = reason(
        program,
        "go",
        tools={"add": caller.add, "save": lambda _: {"saved": True}},
        access=access_to(provider),
        limits=QUICK,
        before_request=caller.before_request,
        report=caller.reports.append,
    )
    assert isinstance(ended, Succeeded)
    assert caller.added == []
    assert "The Tools are closed" in str(provider.requests[1].body)


@pytest.mark.rule("B6")
@pytest.mark.parametrize("schema", [{"type": "array", "items": {"type": "integer"}}, {"enum": [[1]]}])
def test_an_output_may_be_any_json(provider: Provider, wire: tuple[str, bool], schema: dict[str, Any]) -> None:
    provider.answers = [hands_in({"result": [1]})]
    program = Program("loop/test-model", "Work.", output_schema=schema)
    caller = Caller()
    ended = reason(
        program,
        "go",
        tools={},
        access=access_to(provider, wire),
        limits=QUICK,
        before_request=caller.before_request,
        report=caller.reports.append,
    )
    assert isinstance(ended, Succeeded)
    assert ended.output == [1]


@pytest.mark.rule("B6")
def test_without_a_schema_the_output_is_the_text(provider: Provider, wire: tuple[str, bool]) -> None:
    provider.answers = [says("It is five.")]
    caller = Caller()
    ended = reason(
        Program("loop/test-model", "Say it."),
        "2 + 3",
        tools={},
        access=access_to(provider, wire),
        limits=QUICK,
        before_request=caller.before_request,
        report=caller.reports.append,
    )
    assert isinstance(ended, Succeeded)
    assert ended.output == "It is five."


@pytest.mark.rule("B1")
def test_a_missing_key_is_said_before_anything_goes_out(provider: Provider, wire: tuple[str, bool]) -> None:
    caller = Caller()
    ended = work(provider, wire, caller, access=access_to(provider, wire, api_key=None))
    assert isinstance(ended, Failed)
    assert ended.recovery == {"action": "configure_provider_key", "provider": "loop"}
    assert (ended.reason, caller.asked, provider.requests) == ("provider_key_missing", 0, [])
    provider.answers = [hands_in({"answer": 1})]
    keyless = access_to(provider, wire, api_key=None, needs_key=False)
    assert isinstance(work(provider, wire, caller, access=keyless), Succeeded)


def test_a_key_is_in_no_repr(provider: Provider) -> None:
    assert KEY not in repr(access_to(provider))


@pytest.mark.rule("B5", "K17")
@pytest.mark.parametrize("keyed", [True, False])
def test_what_the_environment_holds_for_providers_goes_to_none(
    provider: Provider, wire: tuple[str, bool], keyed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("API_KEY", "ADMIN_KEY", "AUTH_TOKEN", "ORG_ID", "PROJECT_ID")
    for vendor in ("OPENAI", "ANTHROPIC"):
        monkeypatch.setenv(f"{vendor}_CUSTOM_HEADERS", f"X-Gateway: {SENTINEL}")
        for name in names:
            monkeypatch.setenv(f"{vendor}_{name}", SENTINEL)
    provider.answers = [hands_in({"answer": 5})]
    access = access_to(provider, wire, api_key=KEY if keyed else None, needs_key=keyed)
    assert isinstance(work(provider, wire, access=access), Succeeded)
    assert SENTINEL not in json.dumps(provider.requests[0].headers)
    assert (KEY in json.dumps(provider.requests[0].headers)) == keyed


class Compressed(str):
    """A body of 50 MB that is sent as some 50 kB."""

    sent = gzip.compress(b"{" + b" " * 50_000_000)

    def encode(self, *_: Any) -> bytes:
        return self.sent


@pytest.mark.rule("K21", "B6")
def test_a_compressed_answer_is_not_unpacked(provider: Provider, wire: tuple[str, bool]) -> None:
    provider.answers = [Answer(body=Compressed(), headers={"Content-Encoding": "gzip"})]
    work(provider, wire)  # whatever is loaded once
    tracemalloc.start()
    ended = work(provider, wire)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (ended.reason, ended.usage.requests) == ("response_broken", 1)
    assert "compresses" in ended.message
    assert most < 10_000_000


@pytest.mark.rule("B3")
@pytest.mark.parametrize(("told", "counted"), [(10**30, 1_000_000_000), (-5, 0)])
@pytest.mark.parametrize("kind", ["openai", "anthropic"])
def test_a_number_of_tokens_that_cannot_be_leaves_usage_countable(
    provider: Provider, kind: str, told: int, counted: int
) -> None:
    names = ("prompt_tokens", "completion_tokens", "total_tokens") if kind == "openai" else _ANTHROPIC_TOKENS
    whole = body_of(kind, hands_in({"answer": 5}))
    provider.answers = [Answer(body=json.dumps({**whole, "usage": dict.fromkeys(names, told)}))]
    ended = work(provider, (kind, False))
    assert (ended.usage.input_tokens, ended.usage.output_tokens) == (counted, counted)


_ANTHROPIC_TOKENS = ("input_tokens", "output_tokens")
