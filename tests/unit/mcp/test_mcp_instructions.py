"""What an agent reads of the external agent protocol before its first task: instructions, descriptions, schemas."""

from __future__ import annotations

from typing import Any

import pytest

from apps.access.domain.entries import MCP_ENTRIES
from apps.agents.domain.statuses import ToolStatus
from apps.core.caller import Source
from apps.core.endpoints import Endpoint, tools_for
from apps.mcp.instructions import instructions_for

AGENT_ENTRIES = [entry for entry in MCP_ENTRIES if entry.source is Source.AGENT_IDE]
OTHER_ENTRIES = [entry for entry in MCP_ENTRIES if entry.source is not Source.AGENT_IDE]
PROTOCOL = (
    "get_agent_call", "claim_agent_call", "call_agent_tool", "read_agent_asset", "complete_agent_call",
    "fail_agent_call",
)  # fmt: skip
TOOLS: dict[str, Endpoint[Any, Any]] = {tool.name: tool for tool in tools_for(Source.AGENT_IDE)}


@pytest.mark.rule("N7")
@pytest.mark.parametrize("entry", AGENT_ENTRIES, ids=lambda entry: entry.name)
def test_an_agent_is_told_what_to_do_in_the_order_in_which_it_is_done(entry: Any) -> None:
    text = instructions_for(tools_for(entry.source))
    order = (
        "call status", "list_looms", "operationId", "poll get_run", "pendingAction", "interact", "answer_ask",
        "Never answer", "pendingAgentCall", "claim_agent_call", "claimId", "ownerToken", "call_agent_tool",
        "toolCallId", "complete_agent_call", "lost answer", "restart", "error.validation", "never repeat",
    )  # fmt: skip
    place = 0
    for needed in order:
        assert needed in text[place:], f"{needed}, after {text[:place][-40:]!r}"
        place = text.index(needed, place)
    # Where the ids of two Tools come from, which no name tells.
    for needed in ("(id: actionId)", "(id: callId)", "an end Tool does not", "resume_run only"):
        assert needed in text


@pytest.mark.rule("N7", "N1")
@pytest.mark.parametrize("entry", OTHER_ENTRIES, ids=lambda entry: entry.name)
def test_who_cannot_claim_a_task_is_told_to_leave_it(entry: Any) -> None:
    text = instructions_for(tools_for(entry.source))
    assert "pendingAgentCall is a task that an agent has at another entry: leave it." in text
    assert not [name for name in PROTOCOL if name in text]


@pytest.mark.rule("N6", "A3")
def test_the_description_of_a_tool_call_says_what_each_end_of_it_asks_for() -> None:
    text = TOOLS["call_agent_tool"].description
    for end in (*ToolStatus, "INVALID_REQUEST", "TOOL_FAILED", "BUSY", "TOOLS_CLOSED", "CAPACITY", "CONFLICT"):
        assert end in text
    assert "not Tools of this server" in text
    assert "lost answer" in text


@pytest.mark.rule("N6", "A2", "A8")
def test_the_tools_of_the_protocol_name_the_one_that_comes_next() -> None:
    following = {
        "claim_agent_call": ["call_agent_tool", "read_agent_asset", "complete_agent_call", "get_run"],
        "complete_agent_call": ["get_run"],
    }
    for name, needed in following.items():
        assert [tool for tool in needed if tool not in TOOLS[name].description] == []


@pytest.mark.rule("N6")
@pytest.mark.parametrize("name", PROTOCOL)
def test_every_member_of_the_protocol_has_a_type_and_its_origin_is_told(name: str) -> None:
    """A member without a type is sent as a text by many clients."""
    members = TOOLS[name].input.wire_schema()["properties"]
    assert [member for member, schema in members.items() if "type" not in schema] == []
    assert [member for member, schema in members.items() if "description" not in schema] == ["runId"]


@pytest.mark.rule("N6", "H1", "H2")
def test_an_answer_is_sent_as_json_and_not_as_a_text_that_holds_it() -> None:
    members = {
        **TOOLS["answer_ask"].input.wire_schema()["properties"],
        **TOOLS["run"].input.wire_schema()["properties"],
    }
    assert "pendingAction.id" in members["actionId"]["description"]
    for name in ("answer", "input"):
        assert "not a text that holds it" in members[name]["description"]
