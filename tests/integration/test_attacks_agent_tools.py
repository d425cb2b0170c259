"""Tools that misbehave: whatever one does ends in a receipt, and only what a completed one did lands (A4, A12)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from apps.agents.models import ToolReceipt
from apps.ledger.models import Event
from apps.runs.models import Run, State
from tests.conftest import Service
from tests.integration.agent_work import Agent, make_agent_loom, waiting_agent

pytestmark = pytest.mark.django_db(transaction=True)

KEY = "swordfish-of-the-loom"

TOOLS = """
class Settings(BaseModel):
    key: SecretStr = SecretStr("")

KEPT = []

class Silent(BaseException):
    pass

class Mute(ToolError):
    def __str__(self):
        raise self

@tool
def leave(call: ToolCall[Notes]) -> str:
    call.update(words=["lost"])
    sys.exit("out")

@tool
def interrupt(call: ToolCall[Notes]) -> str:
    call.update(words=["lost"])
    raise KeyboardInterrupt

@tool
def exhaust(call: ToolCall[Notes]) -> str:
    call.update(words=["lost"])
    raise MemoryError

@tool
def silent(call: ToolCall[Notes]) -> str:
    call.update(words=["lost"])
    raise Silent

@tool
def mute(call: ToolCall[Notes]) -> str:
    call.update(words=["lost"])
    raise Mute("never read")

@tool
def deep(call: ToolCall[Notes]) -> str:
    call.update(words=["lost"])
    return deep(call)

@tool
async def leave_async(call: ToolCall[Notes]) -> str:
    call.update(words=["lost"])
    sys.exit("out")

@tool(timeout=0.2)
async def slow_async(call: ToolCall[Notes]) -> str:
    call.update(words=["lost"])
    await asyncio.sleep(30)
    return "late"

@tool(timeout=0.2)
async def stubborn(call: ToolCall[Notes]) -> str:
    call.update(words=["lost"])
    for _ in range(20):
        try:
            await asyncio.sleep(0.1)
        except asyncio.CancelledError:
            pass
    return "late"

@tool
def wrong_state(call: ToolCall[Notes]) -> str:
    call.update(words=["lost"])
    call.update(number="many")
    return "never"

@tool
def wrong_inside(call: ToolCall[Notes]) -> str:
    call.state.words.append(3)
    return "never"

@tool
def huge_state(call: ToolCall[Notes]) -> str:
    call.update(words=["x" * 1024 * 1024])
    return "never"

@tool
def huge_output(call: ToolCall[Notes]) -> str:
    call.update(words=["lost"])
    return "x" * 1024 * 1024

@tool
def secret_output(call: ToolCall[Notes]) -> str:
    call.update(words=["lost"])
    return "it is " + call.settings.key.get_secret_value()

@tool
def secret_state(call: ToolCall[Notes]) -> str:
    call.update(words=[call.settings.key.get_secret_value()])
    return "never"

@tool
def secret_error(call: ToolCall[Notes]) -> str:
    call.log.info("key %s", call.settings.key.get_secret_value())
    raise ToolError("no good: " + call.settings.key.get_secret_value())

@tool
def not_a_number(call: ToolCall[Notes]) -> float:
    call.update(words=["lost"])
    return float("nan")

@tool
def infinite_inside(call: ToolCall[Notes]) -> dict[str, list[float | None]]:
    call.update(words=["lost"])
    return {"a": [1.0, None, float("inf")]}

class Measured(BaseModel):
    value: float | None

@tool
def no_number_in_model(call: ToolCall[Notes]) -> Measured:
    call.update(words=["lost"])
    return Measured(value=float("nan"))

@tool
def no_number_in_list(call: ToolCall[Notes]) -> list[Measured | None]:
    call.update(words=["lost"])
    return [None, Measured(value=float("inf"))]

@tool
def serializer(call: ToolCall[Notes]) -> Annotated[str, PlainSerializer(lambda value: sys.exit("serializer"))]:
    call.update(words=["lost"])
    return "x"

@tool
def state_of_another(call: ToolCall[Notes]) -> str:
    call.state = Inner()
    return "never"

@tool
def big_number(call: ToolCall[Notes]) -> int:
    call.update(words=["lost"])
    return 2**53

@tool
def surrogate(call: ToolCall[Notes]) -> str:
    call.update(words=["lost"])
    return chr(0xd800)

@tool
def path_error(call: ToolCall[Notes]) -> str:
    raise ToolError(f"cannot read {__file__}")

@tool
def blank(call: ToolCall[Notes]) -> str:
    raise ToolError("")

@tool
def inside(call: ToolCall[Notes]) -> str:
    call.state.words.append("kept")
    call.state.inner.words.append("kept inside")
    print("to nobody")
    return "ok"

@tool
def full_output(call: ToolCall[Notes]) -> str:
    return "x" * (1024 * 1024 - 2)

@tool
def nothing(call: ToolCall[Notes]) -> None:
    return None

@tool
def keep_call(call: ToolCall[Notes]) -> str:
    KEPT.append(call)
    return "kept"

@tool
def use_kept(call: ToolCall[Notes]) -> dict[str, str]:
    old = KEPT.pop()
    old.update(words=["from the past"])
    try:
        old.artifacts.get("x", "y")
        read = "read"
    except Exception as error:
        read = type(error).__name__
    return {"read": read, "cancelled": str(old.cancelled())}

@tool
def spawn(call: ToolCall[Notes]) -> str:
    call.update(words=["mine"])
    begin = threading.Event()
    def late():
        begin.wait(5)
        call.update(words=["late"])
        DONE.set()
    threading.Thread(target=late, daemon=True).start()
    BEGIN.append(begin)
    return "spawned"

BEGIN, DONE = [], threading.Event()

@tool
def release(call: ToolCall[Notes]) -> bool:
    BEGIN.pop().set()
    return DONE.wait(5)

@tool
def foreign(call: ToolCall[Notes], id: str) -> list[Any]:
    return [call.artifacts.get("assist", "work"), call.artifacts.get_by_id(id), call.records.latest("assist", "work")]

@tool
async def read_async(call: ToolCall[Notes]) -> bool:
    return call.artifacts.get("assist", "work") is None and not call.cancelled()

@tool
def commit(call: ToolCall[Notes]) -> list[str]:
    return [name for name in ("put_artifact", "append_record", "ask", "confirm") if hasattr(call, name)]
"""

#: Tool → what its refusal says.
FAILING = {
    "leave": "SystemExit",
    "interrupt": "KeyboardInterrupt",
    "exhaust": "MemoryError",
    "silent": "Silent",
    "mute": "cannot be read",
    "deep": "RecursionError",
    "leave_async": "SystemExit",
    "slow_async": "200ms",
    "stubborn": "200ms",
    "wrong_state": "/number",
    "wrong_inside": "/words/0",
    "huge_state": "1048576 bytes",
    "huge_output": "1048576 bytes",
    "secret_output": "secret setting",
    "secret_state": "secret setting",
    "secret_error": "no good: [secret]",
    "not_a_number": "finite",
    "infinite_inside": "finite",
    "no_number_in_model": "finite",
    "no_number_in_list": "finite",
    "serializer": "not what it declares",
    "state_of_another": "must be a Notes",
    "big_number": "2^53-1",
    "surrogate": "surrogate",
    "path_error": "cannot read …/code.py",
    "blank": "ToolError",
}
WORKING = (
    "inside", "full_output", "nothing", "keep_call", "use_kept", "spawn", "release", "foreign", "read_async", "commit",
)  # fmt: skip


@pytest.fixture
def agent(service: Service, loom_paths: Path, monkeypatch: pytest.MonkeyPatch) -> Agent:
    monkeypatch.setenv("LOOM_HOSTILE_KEY", KEY)
    tools = (*FAILING, *WORKING)
    make_agent_loom(loom_paths, "hostile", TOOLS, tools=tools, top="settings: code:Settings\n")
    return waiting_agent(service, "hostile")


def state_of(agent: Agent) -> Any:
    return State.objects.get(pk=Run.objects.get(pk=agent.run_id).state_id).data


@pytest.mark.rule("A4", "A12", "E6", "K18")
def test_a_tool_that_misbehaves_leaves_a_failed_receipt_and_nothing_else(agent: Agent) -> None:
    begun = state_of(agent)
    seen: dict[str, Any] = {}
    for name, says in FAILING.items():
        failed = agent.tool(name, name)
        seen[name] = (failed.get("error", {}).get("code"), failed.get("receipt", {}).get("status"))
        message = failed.get("error", {}).get("message", "")
        if says not in message or not message.isprintable():
            seen[name] = message
        assert state_of(agent) == begun, name
    assert seen == dict.fromkeys(FAILING, ("TOOL_FAILED", "failed"))
    stored = json.dumps(
        [list(ToolReceipt.objects.values_list("error", "output")), *Event.objects.values_list("data")],
        ensure_ascii=False,
    )
    assert KEY not in stored
    assert "/code.py" not in stored.replace("…/code.py", "")
    assert "receipt" in agent.complete(outcome="done")


@pytest.mark.rule("A4")
def test_what_a_tool_changes_inside_its_state_lands(agent: Agent) -> None:
    assert agent.tool("inside")["output"] == "ok"
    assert state_of(agent) == {"words": ["kept"], "inner": {"words": ["kept inside"]}, "number": 0}


@pytest.mark.rule("A3")
def test_an_output_of_exactly_the_bound_is_given_again_and_none_is_no_output(agent: Agent) -> None:
    full = agent.tool("full_output", "full")
    assert len(json.dumps(full["output"])) == 1024 * 1024
    assert agent.tool("full_output", "full") == full
    nothing = agent.tool("nothing", "nothing")
    assert (nothing["receipt"]["status"], nothing.get("output")) == ("completed", None)
    assert agent.tool("nothing", "nothing") == nothing


@pytest.mark.rule("A4")
def test_a_call_object_that_outlives_its_call_does_nothing(agent: Agent) -> None:
    agent.tool("keep_call")
    assert agent.tool("use_kept")["output"] == {"read": "SegmentOver", "cancelled": "True"}
    assert state_of(agent)["words"] == []


@pytest.mark.rule("A4")
def test_a_thread_that_a_tool_leaves_behind_writes_no_state(agent: Agent) -> None:
    agent.tool("spawn")
    assert agent.tool("release")["output"] is True
    assert state_of(agent)["words"] == ["mine"]


@pytest.mark.rule("A4", "E5", "K10")
def test_a_tool_reads_its_own_project_only_async_too_and_can_commit_or_ask_nothing(
    agent: Agent, service: Service
) -> None:
    from dataclasses import replace

    from apps.access.services.projects import create_project
    from apps.core import clock
    from tests.conftest import caller_in

    elsewhere = replace(service, caller=caller_in(create_project(name="elsewhere", now=clock.now())))
    other = waiting_agent(elsewhere)
    other.complete(outcome="written", text="private")
    elsewhere.work()
    kept = elsewhere.call("get_artifact", loomName="assist", stageName="work")["artifact"]
    assert kept["data"]["text"] == "private"
    assert agent.tool("foreign", id=kept["artifactId"])["output"] == [None, None, None]
    assert agent.tool("read_async")["output"] is True
    assert agent.tool("commit")["output"] == []
