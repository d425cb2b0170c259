"""Models as the library has them: one for each wire, over the guarded way out and without retries of their own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2
from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.settings import ModelSettings

from apps.agent_sessions.runtime.ended import Access
from apps.agent_sessions.runtime.transport import guarded_client

#: Sent where a provider wants no key but the client must have one.
_NO_KEY = "none"


@asynccontextmanager
async def opened(access: Access, *, seconds: float) -> AsyncIterator[Model]:
    """The model, and the connections that it holds until the block ends."""
    key = access.api_key or _NO_KEY
    async with guarded_client(allowed_hosts=access.allowed_hosts, seconds=seconds) as client:
        yield (_anthropic if access.kind == "anthropic" else _openai)(access, key, client)


# The clients are imported where they are used: together they take seconds.  Both of them take headers and names of
# accounts from the environment for whatever host they are sent to.  Those are the operator's, not the Project's.


def _anthropic(access: Access, key: str, client: httpx2.AsyncClient) -> Model:
    from anthropic import AsyncAnthropic
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.providers.anthropic import AnthropicProvider

    sdk = AsyncAnthropic(api_key=key, base_url=access.base_url, http_client=client, max_retries=0)
    sdk._custom_headers = {}
    return AnthropicModel(access.model, provider=AnthropicProvider(anthropic_client=sdk))


def _openai(access: Access, key: str, client: httpx2.AsyncClient) -> Model:
    from openai import AsyncOpenAI
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    sdk = AsyncOpenAI(api_key=key, base_url=access.base_url, http_client=client, max_retries=0)
    sdk._custom_headers = {}
    sdk.organization = sdk.project = None
    return OpenAIChatModel(access.model, provider=OpenAIProvider(openai_client=sdk))


async def ask(
    model: Model,
    messages: list[ModelMessage],
    parameters: ModelRequestParameters,
    settings: ModelSettings,
    *,
    stream: bool,
) -> ModelResponse:
    """One request and its whole response; streamed, each part of it is waited for anew."""
    prepared = model.prepare_messages(messages, parameters)
    if not stream:
        return await model.request(prepared, settings, parameters)
    async with model.request_stream(prepared, settings, parameters) as response:
        async for _ in response:
            pass
        return response.get()
