"""A Loom whose Agent Step a provider on loopback does, for tests of models of the service."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from apps.agent_sessions.services.provider_keys import set_provider_key
from apps.core import clock
from apps.ledger.models import Event
from tests.conftest import Service
from tests.loopback_provider import INPUT_TOKENS, OUTPUT_TOKENS, Provider, loopback_provider

KEY = "sk-of-the-project-0815"


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
