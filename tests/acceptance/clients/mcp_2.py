"""Plays a plan with the Python package ``mcp`` 2.x, in the era that it names: ``python mcp_2.py plan.json``."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import ElicitResult
from playing import Human, Json, play


@asynccontextmanager
async def transport(server: Json, beside: list[Any]) -> AsyncIterator[Any]:
    """Streams to the service; what is sent ``beside`` messages is noted."""
    if "command" in server:
        async with stdio_client(StdioServerParameters(**server)) as streams:
            yield streams
        return

    async def note(response: httpx2.Response) -> None:
        request = response.request
        if request.method != "POST":
            beside.append([request.method, request.headers["accept"], response.status_code])

    headers = {"authorization": f"Bearer {server['token']}"}
    async with (
        httpx2.AsyncClient(headers=headers, event_hooks={"response": [note]}) as http,
        streamable_http_client(server["url"], http_client=http) as streams,
    ):
        yield streams


async def main(plan: Json) -> Json:
    human = Human(plan["forms"])
    beside: list[Any] = []

    async def show_form(_: Any, params: Any) -> ElicitResult:
        return ElicitResult(**human.fill_in(params.message, params.requested_schema))

    reached = transport(plan["server"], beside)
    async with Client(reached, mode=plan["mode"], elicitation_callback=show_form) as client:

        async def call(tool: str, arguments: Json) -> Json:
            structured = (await client.call_tool(tool, arguments)).structured_content
            assert structured is not None
            return structured

        assert client.server_info is not None
        about = {"revision": client.protocol_version, "server": client.server_info.name}
        tools = [tool.name for tool in (await client.list_tools()).tools]
        played = await play(plan, call)
    return {**about, "tools": tools, **played, "forms": human.seen, "beside": beside}


print(json.dumps(asyncio.run(main(json.loads(Path(sys.argv[1]).read_text())))))
