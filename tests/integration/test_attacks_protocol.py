"""The agent protocol under hostile arguments: odd ids, odd values, odd schemas, several refusals at once."""

from __future__ import annotations

import itertools
import uuid
from pathlib import Path
from typing import Any

import pytest

from apps.agents.models import AgentCall, ToolReceipt
from apps.core.database import database_time_after
from tests.conftest import Service
from tests.integration.agent_work import ANY, Agent, agent_caller, code, issues, make_agent_loom, waiting_agent

pytestmark = pytest.mark.django_db(transaction=True)


#: Texts of 1 to 512 characters that differ by a hair, each an id of its own.
ODD = (
    " ",
    "  ",
    "\t",
    "\n",
    "\r\n",
    "\x01",
    "\x7f",
    "\u00a0",
    "\u200b",
    "\u202e",
    "\ufeff",
    "\uffff",
    "a",
    "A",
    "a ",
    " a",
    "\u00e9",
    "e\u0301",
    "%",
    "_",
    "a%",
    "\\",
    "'",
    '"',
    "null",
    "0",
    "../..",
    "\U0001f600",
    "\U0010ffff" * 512,
    "x" * 512,
    "\u00df",
    "ss",
    "\u0130",
    "i\u0307",
)
#: And those that are none: an id, and the code of its issue.
NO_IDS = (
    ("", "length"),
    ("x" * 513, "length"),
    ("\U0001f600" * 513, "length"),
    ("a\x00b", "nul"),
    ("\ud800", "surrogate"),
    (7, "type"),
    (None, "type"),
)


@pytest.mark.rule("A2", "A3", "K23")
def test_ids_of_any_text_are_told_apart_to_the_last_character(service: Service) -> None:
    agent = waiting_agent(service)
    for number, odd in enumerate(ODD):
        assert agent.tool("add", odd, line=str(number))["output"] == {"lines": number + 1}, ascii(odd)
    for number, odd in enumerate(ODD):
        assert agent.tool("add", odd, line=str(number))["output"] == {"lines": number + 1}, ascii(odd)
        assert code(agent.tool("add", odd, line="another")) == "CONFLICT"
    assert [receipt["toolCallId"] for receipt in agent.view()["receipts"]] == list(ODD)
    for odd, why in NO_IDS:
        refused = agent.ask(
            "call_agent_tool", ownerToken=agent.token, toolCallId=odd, toolId="add", input={"line": "x"}
        )
        assert issues(refused) == [(why, "/toolCallId")], ascii(odd)
    assert ToolReceipt.objects.count() == len(ODD)


@pytest.mark.rule("A2")
def test_a_claim_under_any_odd_id_is_reconnected_by_that_very_id_alone(service: Service) -> None:
    for claim_id in ("\U0010ffff" * 512, "e\u0301", " "):
        agent = waiting_agent(service, claim=False)
        for odd, why in NO_IDS:
            assert issues(agent.ask("claim_agent_call", claimId=odd)) == [(why, "/claimId")]
        first = agent.ask("claim_agent_call", claimId=claim_id)
        assert agent.ask("claim_agent_call", claimId=claim_id) == first
        for near in (claim_id[:-1] or "x", "\u00e9", claim_id + " ", claim_id.strip() or "y"):
            if near != claim_id and len(near) <= 512:
                assert code(agent.ask("claim_agent_call", claimId=near)) == "CONFLICT"


@pytest.mark.rule("A3", "A7", "K11")
@pytest.mark.parametrize("odd", ["\x01", "\U0001f600" * 512, "\u00e9", " "])
def test_odd_tokens_tools_and_assets_are_refused_plainly(service: Service, odd: str) -> None:
    agent = waiting_agent(service)
    asked = {"toolCallId": "x", "toolId": "add", "input": {"line": "x"}}
    assert code(agent.ask("call_agent_tool", **asked, ownerToken=odd)) == "FORBIDDEN"
    tool = agent.ask("call_agent_tool", **{**asked, "toolId": odd[:200]}, ownerToken=agent.token)
    assert issues(tool) == [("choice", "/toolId")]
    assert issues(agent.asset(odd)) == [("choice", "/assetId")]


#: The same value in two spellings, and two values that only look alike.
SAME = (
    (1, 1.0),
    (0, -0.0),
    (1e2, 100),
    ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
    ({"x": {"b": [1], "a": 2.0}}, {"x": {"a": 2, "b": [1.0]}}),
)
OTHER = (
    (1, True),
    (0, False),
    (0, None),
    ("1", 1),
    ("\u00e9", "e\u0301"),
    ([1, 2], [2, 1]),
    ({}, []),
    (2**53 - 1, 2**53 - 2),
    (0.1, 0.10000000000000002),
    ({"a": None}, {}),
    (1e308, 1e307),
    ("", None),
)


@pytest.mark.rule("A3", "K23")
def test_identical_input_is_the_same_json_and_not_the_same_spelling(service: Service, loom_paths: Path) -> None:
    agent = waiting_agent(service, make_agent_loom(loom_paths, "takes", ANY, tools=("take",)))
    for number, (one, other) in enumerate(SAME):
        first = agent.tool("take", f"same {number}", value=one)
        assert agent.tool("take", f"same {number}", value=other) == first, (one, other)
    for number, (one, other) in enumerate(OTHER):
        agent.tool("take", f"other {number}", value=one)
        assert code(agent.tool("take", f"other {number}", value=other)) == "CONFLICT", (one, other)
    for wrong in (2**53, float("nan"), float("inf"), "\x00", {"\ud800": 1}):
        assert code(agent.tool("take", "wrong", value=wrong)) == "INVALID_REQUEST"
    assert ToolReceipt.objects.count() == len(SAME) + len(OTHER)


@pytest.mark.rule("A8", "K23")
def test_an_identical_result_is_the_same_json_and_not_the_same_spelling(service: Service, loom_paths: Path) -> None:
    output = "\nclass Output(BaseModel):\n    outcome: str\n    value: Any = None\n"
    loom = make_agent_loom(loom_paths, "valued", output)
    for one, other, changed in ((1, 1.0, True), ({"a": 0, "b": 1}, {"b": 1.0, "a": -0.0}, {"a": 0}), (None, None, 0)):
        agent = waiting_agent(service, loom)
        accepted = agent.complete(outcome="done", value=one)
        assert agent.complete(value=other, outcome="done") == accepted
        assert code(agent.complete(outcome="done", value=changed)) == "CONFLICT"
        assert code(agent.complete(outcome="done")) == "CONFLICT", "left out is not null"


def arrange(agent: Agent, *, closed: bool, tools_closed: bool, running: bool, full: bool) -> None:
    """Put the claimed call where these conditions hold at once."""
    agent.tool("add", "known", line="x")
    call = AgentCall.objects.filter(pk=agent.call_id)
    call.update(tools_closed=tools_closed, receipts_made=256 if full else 1)
    if running:
        ToolReceipt.objects.create(
            call_id=uuid.UUID(agent.call_id),
            tool_call_id="under way",
            tool_id="add",
            input_digest="0" * 64,
            status="running",
            created_at=call.get().created_at,
            lease_expires_at=database_time_after(60),
        )
    if closed:
        agent.fail()


@pytest.mark.rule("A3")
@pytest.mark.parametrize(
    ("closed", "tools_closed", "running", "full"), itertools.product([False, True], repeat=4), ids=str
)
def test_of_several_refusals_the_first_in_the_order_of_checks_is_given(
    service: Service, closed: bool, tools_closed: bool, running: bool, full: bool
) -> None:
    agent = waiting_agent(service)
    arrange(agent, closed=closed, tools_closed=tools_closed, running=running, full=full)
    before = (agent.run(), agent.view(), list(ToolReceipt.objects.order_by("id").values()))
    other = agent_caller(service, "another")
    conditions = {
        "TOOLS_CLOSED": tools_closed,
        "BUSY": running,
        "CAPACITY": full,
    }
    rest = next((name for name, holds in conditions.items() if holds), None)
    expected = "CONFLICT" if closed else rest

    def ask(agent: Agent, **changes: Any) -> dict[str, Any]:
        asked = {"ownerToken": agent.token, "toolCallId": "new", "toolId": "add", "input": {"line": "y"}}
        return agent.ask("call_agent_tool", **{**asked, **changes})

    for wrong_tool in ({}, {"toolId": "vanish"}, {"input": {}}, {"toolId": "vanish", "input": {"line": 3}}):
        for known in ({}, {"toolCallId": "known"}):
            changes = {**wrong_tool, **known}
            shapeless = ask(agent, **changes, ownerToken="")
            assert code(shapeless) == "INVALID_REQUEST"
            assert "/ownerToken" in [path for _, path in issues(shapeless)]
            assert code(ask(agent, **changes, ownerToken=agent.token + "x")) == "FORBIDDEN"
            stranger = Agent(service, other, agent.run_id, agent.call_id, agent.token)
            assert code(ask(stranger, **changes)) == "FORBIDDEN"
            nowhere = ask(agent, **changes, ownerToken="wrong", callId=str(uuid.uuid4()))
            assert code(nowhere) == "NOT_FOUND"
        assert code(ask(agent, toolCallId="known", **wrong_tool)) == "CONFLICT", "a known id comes before all else"
        if wrong_tool:
            assert code(ask(agent, **wrong_tool)) == ("CONFLICT" if closed else "INVALID_REQUEST")
    assert agent.tool("add", "known", line="x")["output"] == {"lines": 1}
    assert (agent.run(), agent.view(), list(ToolReceipt.objects.order_by("id").values())) == before
    if expected is not None:
        assert code(ask(agent)) == expected
        assert (agent.run(), agent.view(), list(ToolReceipt.objects.order_by("id").values())) == before
    else:
        assert ask(agent)["receipt"]["status"] == "completed"


NESTED = """
class Item(BaseModel):
    model_config = {"extra": "forbid"}
    sizes: dict[str, list[int]] = {}
    kind: Literal["a", "b"] = "a"

@tool
def store(call: ToolCall[Notes], items: list[Item], either: int | list[int] = 0) -> None:
    pass
"""


@pytest.mark.rule("A3", "E3")
def test_pointers_lead_into_nested_tool_input(service: Service, loom_paths: Path) -> None:
    agent = waiting_agent(service, make_agent_loom(loom_paths, "nested", NESTED, tools=("store",)))
    wrong = [{"sizes": {"a/b": ["x", 1, None], "m~n": 3}}, {"kind": "c", "more/~": 1}, 5]
    refused = agent.tool("store", items=wrong, either=[1, "2"], extra=1)
    assert {path for _, path in issues(refused)} == {
        "/input/items/0/sizes/a~1b/0",
        "/input/items/0/sizes/a~1b/2",
        "/input/items/0/sizes/m~0n",
        "/input/items/1/kind",
        "/input/items/1/more~1~0",
        "/input/items/2",
        "/input/either",
        "/input/either/1",
        "/input/extra",
    }
    assert agent.tool("store", items=wrong, either=[1, "2"], extra=1) == refused
    assert issues(agent.ask("call_agent_tool", ownerToken=agent.token, toolCallId="x", toolId="store", input=[])) == [
        ("type", "/input")
    ]
    many = agent.tool("store", items=[{"sizes": {"n": ["x"] * 80}}])
    assert (len(issues(many)), many["error"]["validation"]["truncated"]) == (50, True)
