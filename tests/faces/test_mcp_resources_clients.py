"""The official Python client (1.30) reads resources, takes prompts and has names completed, at every Entry (N5)."""

# ruff: noqa: F811 - the fixtures come from site_live
from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from every_endpoint import things_of, unknown_things
from mcp import ClientSession, McpError
from mcp.client.streamable_http import streamablehttp_client
from mcp.types import PromptReference, ResourceTemplateReference, TextContent, TextResourceContents
from pydantic import AnyUrl
from site_live import Site, _site_port, site, stranger  # noqa: F401

from apps.access.domain.entries import MCP_ENTRIES, Entry
from tests.conftest import Service


def drive(site: Site, entry: Entry, act: Callable[[ClientSession], Awaitable[None]]) -> None:
    async def session() -> None:
        headers = {"Authorization": f"Bearer {site.tokens[entry.source.value]}"}
        url = f"http://127.0.0.1:{site.port}{entry.path}"
        async with (
            streamablehttp_client(url, headers=headers) as (read, write, _),
            ClientSession(read, write) as client,
        ):
            await client.initialize()
            await act(client)

    asyncio.run(asyncio.wait_for(session(), 20))


async def read(client: ClientSession, uri: AnyUrl | str) -> Any:
    (content,) = (await client.read_resource(AnyUrl(str(uri)))).contents
    assert isinstance(content, TextResourceContents)
    assert content.mimeType == "application/json"
    return json.loads(content.text)


@pytest.mark.rule("N5", "E5", "K10")
@pytest.mark.parametrize("entry", MCP_ENTRIES, ids=lambda entry: entry.name)
def test_the_official_client_reads_what_is_listed_and_nothing_of_another_project(
    site: Site, stranger: Site, service: Service, entry: Entry
) -> None:
    known, run = things_of(service), {}
    run.update(service.run(known["runId"]))

    async def act(client: ClientSession) -> None:
        listed = (await client.list_resources()).resources
        found = {str(resource.uri): await read(client, resource.uri) for resource in listed}
        assert found["loom://looms/trial"]["loomName"] == "trial"
        assert found[f"loom://artifacts/{known['artifactId']}"]["data"] == {"secret": "of this Project"}
        templates = (await client.list_resource_templates()).resourceTemplates
        address = next(template.uriTemplate for template in templates if template.name == "run")
        assert await read(client, address.replace("{id}", known["runId"])) == run

    async def pry(client: ClientSession) -> None:
        errors = []
        for things in (known, unknown_things()):
            with pytest.raises(McpError) as refused:
                await read(client, f"loom://runs/{things['runId']}")
            assert refused.value.error.code == -32002
            errors.append(refused.value.error.message.replace(things["runId"], "ID"))
        assert errors[0] == errors[1]

    drive(site, entry, act)
    drive(stranger, entry, pry)


@pytest.mark.rule("N5")
@pytest.mark.parametrize("entry", MCP_ENTRIES, ids=lambda entry: entry.name)
def test_the_official_client_takes_a_prompt_and_completes_a_name(site: Site, service: Service, entry: Entry) -> None:
    async def act(client: ClientSession) -> None:
        prompts = {prompt.name: prompt for prompt in (await client.list_prompts()).prompts}
        assert prompts["trial"].title == "Trial"
        prompt = await client.get_prompt("trial", {"input": "Do nothing."})
        texts = [message.content.text for message in prompt.messages if isinstance(message.content, TextContent)]
        assert "Run the Loom trial" in texts[0]
        assert texts[1].endswith("Do nothing.")
        reference = ResourceTemplateReference(type="ref/resource", uri="loom://looms/{name}")
        done = await client.complete(reference, {"name": "name", "value": "tri"})
        assert done.completion.values == ["trial"]
        words = await client.complete(PromptReference(type="ref/prompt", name="trial"), {"name": "input", "value": "D"})
        assert words.completion.values == []

    drive(site, entry, act)
