"""The official Python client (1.30) against the real face."""

# ruff: noqa: F811 - the fixtures come from mcp_live
from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from mcp import ClientSession
from mcp.client.session import ElicitationFnT
from mcp.client.streamable_http import streamablehttp_client
from mcp.types import ElicitResult
from mcp_live import ENDPOINTS, Live, _server, live, tools  # noqa: F401

from apps.access.domain.entries import MCP_ENTRIES, Entry
from apps.mcp.models import Session


def drive(
    live: Live,
    entry: Entry,
    act: Callable[[ClientSession, Any], Awaitable[None]],
    elicitation: ElicitationFnT | None = None,
) -> None:
    async def session() -> None:
        headers = {"Authorization": f"Bearer {live.tokens[entry.source.value]}"}
        url = f"http://127.0.0.1:{live.port}{entry.path}"
        async with (
            streamablehttp_client(url, headers=headers) as (read, write, session_id),
            ClientSession(read, write, elicitation_callback=elicitation) as client,
        ):
            opened = await client.initialize()
            assert session_id()
            await act(client, opened)

    asyncio.run(asyncio.wait_for(session(), 20))


@pytest.mark.rule("N5", "N6", "N7")
@pytest.mark.parametrize("entry", MCP_ENTRIES, ids=lambda entry: entry.name)
def test_the_official_client_opens_every_entry_and_finds_exactly_its_tools(live: Live, entry: Entry) -> None:
    async def act(client: ClientSession, opened: Any) -> None:
        assert opened.protocolVersion == "2025-11-25"
        assert opened.serverInfo.name == "loomsvc"
        assert opened.capabilities.tools is not None
        assert opened.capabilities.prompts is not None
        assert opened.capabilities.completions is not None
        assert opened.capabilities.resources is not None
        assert opened.capabilities.resources.subscribe is False
        assert "operationId" in opened.instructions
        listed = await client.list_tools()
        assert [tool.name for tool in listed.tools] == [endpoint.name for endpoint in tools(entry.source)]
        await client.send_ping()

    drive(live, entry, act)


@pytest.mark.rule("N1")
def test_the_codex_entry_presents_its_profile(live: Live) -> None:
    async def act(client: ClientSession, opened: Any) -> None:
        result = await client.call_tool("echo", {"value": {"a": 1}})
        assert result.structuredContent is not None
        assert result.structuredContent["profile"] == "codex"
        assert result.structuredContent["entry"] == "/mcp/codex"

    drive(live, MCP_ENTRIES[1], act)


@pytest.mark.rule("E1", "E3")
def test_the_official_client_reads_results_errors_and_their_attachments(live: Live) -> None:
    async def act(client: ClientSession, opened: Any) -> None:
        fine = await client.call_tool("echo", {"value": "wörter 🧵"})
        assert fine.isError is False
        assert fine.structuredContent is not None
        assert fine.structuredContent["value"] == "wörter 🧵"
        refused = await client.call_tool("refuse", {"code": "BUSY"})
        assert refused.isError is True
        assert refused.structuredContent is not None
        assert refused.structuredContent["error"]["retryable"] is True
        assert set(refused.structuredContent) == {"error", "receipt"}
        invalid = await client.call_tool("echo", {"value": 1, "times": "5", "extra": 1})
        assert invalid.structuredContent is not None
        issues = invalid.structuredContent["error"]["validation"]["issues"]
        assert {issue["path"] for issue in issues} == {"/times", "/extra"}

    drive(live, MCP_ENTRIES[0], act)


@pytest.mark.rule("H4", "H5", "N5")
@pytest.mark.parametrize(
    ("replies", "result"),
    [
        ([ElicitResult(action="accept", content={"name": "Ada"})], {"name": "Ada"}),
        (
            [
                ElicitResult(action="accept", content={"name": "A"}),
                ElicitResult(action="accept", content={"name": "Ada", "kind": "p"}),
            ],
            {"name": "Ada"},
        ),
        ([ElicitResult(action="decline")], {"presented": "declined"}),
        ([ElicitResult(action="cancel")], {"presented": "cancelled"}),
    ],
    ids=["accepted", "asked twice", "declined", "cancelled"],
)
def test_the_official_client_shows_forms_and_sends_what_its_human_says(
    live: Live, replies: list[ElicitResult], result: dict[str, str]
) -> None:
    messages: list[str] = []

    async def show(context: Any, params: Any) -> ElicitResult:
        messages.append(params.message)
        return replies[len(messages) - 1]

    async def act(client: ClientSession, opened: Any) -> None:
        done = await client.call_tool("ask", {"text": "Who are you?"})
        assert done.structuredContent == result
        assert len(messages) == len(replies)
        assert all(message.startswith("Who are you?") for message in messages)
        await client.send_ping()

    drive(live, MCP_ENTRIES[0], act, show)


@pytest.mark.rule("H4")
def test_the_official_client_without_forms_gets_what_it_can_show_itself(live: Live) -> None:
    async def act(client: ClientSession, opened: Any) -> None:
        done = await client.call_tool("ask", {"text": "Who are you?"})
        assert done.structuredContent == {"presented": "unsupported"}

    drive(live, MCP_ENTRIES[0], act)


@pytest.mark.rule("N5")
def test_the_official_client_ends_its_session_when_it_leaves(live: Live) -> None:
    async def act(client: ClientSession, opened: Any) -> None:
        assert await client.list_tools()

    drive(live, MCP_ENTRIES[0], act)
    assert not Session.objects.exists()
