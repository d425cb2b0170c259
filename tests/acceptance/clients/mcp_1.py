"""Plays a plan with the Python package ``mcp`` 1.x: ``python mcp_1.py plan.json``."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import ElicitResult
from playing import Human, Json, play


@asynccontextmanager
async def transport(server: Json, beside: list[Any]) -> AsyncIterator[tuple[Any, Any]]:
    """Streams to the service; what is sent ``beside`` messages is noted."""
    if "command" in server:
        async with stdio_client(StdioServerParameters(**server)) as streams:
            yield streams
        return

    async def note(response: httpx.Response) -> None:
        request = response.request
        if request.method != "POST":
            beside.append([request.method, request.headers["accept"], response.status_code])

    headers = {"authorization": f"Bearer {server['token']}"}
    async with (
        httpx.AsyncClient(headers=headers, event_hooks={"response": [note]}) as http,
        streamable_http_client(server["url"], http_client=http) as (read, write, _),
    ):
        yield read, write


async def main(plan: Json) -> Json:
    human = Human(plan["forms"])
    beside: list[Any] = []

    async def show_form(_: Any, params: Any) -> ElicitResult:
        return ElicitResult(**human.fill_in(params.message, params.requestedSchema))

    async with (
        transport(plan["server"], beside) as (read, write),
        ClientSession(read, write, elicitation_callback=show_form) as client,
    ):
        opened = await client.initialize()

        async def call(tool: str, arguments: Json) -> Json:
            structured = (await client.call_tool(tool, arguments)).structuredContent
            assert structured is not None
            return structured

        about = {"revision": opened.protocolVersion, "server": opened.serverInfo.name}
        tools = [tool.name for tool in (await client.list_tools()).tools]
        played = await play(plan, call)
    return {**about, "tools": tools, **played, "forms": human.seen, "beside": beside}


print(json.dumps(asyncio.run(main(json.loads(Path(sys.argv[1]).read_text())))))
