"""An external agent as tests play it: it claims a Run's call and works on it, through the Endpoints."""

from __future__ import annotations

import threading
import uuid
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from django.db import connection

from apps.access.models import Project
from apps.access.services.credentials import create_credential
from apps.agents.contracts import CallAgentTool
from apps.agents.domain.deciding import KnownToolCall
from apps.agents.models import AgentCall, ToolReceipt
from apps.agents.services import tool_calls
from apps.agents.services.tool_calls import Started
from apps.core import clock, json_text
from apps.core.caller import Caller, Source
from apps.core.database import database_time_after
from apps.ledger.models import Event
from apps.looms.services.releases import load_release
from apps.looms.tool_calls import ToolOutput
from apps.runs.models import Run
from tests.conftest import Service


def agent_caller(service: Service, label: str = "agent") -> Caller:
    """A caller at ``/mcp`` with a credential of its own."""
    project = Project.objects.get(pk=service.caller.project_id)
    credential, _ = create_credential(project=project, source=Source.AGENT_IDE, label=label, now=clock.now())
    return replace(
        service.caller,
        source=Source.AGENT_IDE,
        entry="/mcp",
        credential_id=credential.pk,
        principal=f"credential:{credential.public_id}",
    )


def code(result: dict[str, Any]) -> str | None:
    """The code of an error; None for any other result."""
    return result["error"]["code"] if "error" in result else None


def issues(result: dict[str, Any]) -> list[tuple[str, str]]:
    """Code and pointer of each issue."""
    return [(issue["code"], issue["path"]) for issue in result["error"]["validation"]["issues"]]


def paths(result: dict[str, Any]) -> list[str]:
    """The pointer of each issue."""
    return [path for _, path in issues(result)]


@dataclass
class Agent:
    """An agent at one call of one Run.  Each method returns the wire result, an error's included."""

    service: Service
    caller: Caller
    run_id: str
    call_id: str = ""
    token: str = ""
    claim_id: str = field(default_factory=lambda: str(uuid.uuid4()))

    @property
    def secret(self) -> str:
        """The part of the ownerToken that nobody else can know; it may hold a `_` itself."""
        return self.token.split("_", 3)[3]

    def ask(self, name: str, /, **arguments: Any) -> dict[str, Any]:
        reference = {"runId": self.run_id, "callId": self.call_id}
        return self.service.call(name, self.caller, **{**reference, **arguments})

    def view(self) -> dict[str, Any]:
        return self.ask("get_agent_call")["agentCall"]

    def claim(self) -> dict[str, Any]:
        claimed = self.ask("claim_agent_call", claimId=self.claim_id)
        self.token = claimed.get("ownerToken", self.token)
        return claimed

    def tool(self, tool: str, call_id: str | None = None, /, **arguments: Any) -> dict[str, Any]:
        return self.ask(
            "call_agent_tool",
            ownerToken=self.token,
            toolCallId=call_id or str(uuid.uuid4()),
            toolId=tool,
            input=arguments,
        )

    def asset(self, asset_id: str) -> dict[str, Any]:
        return self.ask("read_agent_asset", ownerToken=self.token, assetId=asset_id)

    def complete(self, **result: Any) -> dict[str, Any]:
        return self.ask("complete_agent_call", ownerToken=self.token, result=result)

    def fail(self, message: str = "It cannot be done.") -> dict[str, Any]:
        return self.ask("fail_agent_call", ownerToken=self.token, message=message)

    def run(self) -> dict[str, Any]:
        return self.service.run(self.run_id)


def waiting_agent(service: Service, loom: str = "assist", *, claim: bool = True, **plan: Any) -> Agent:
    """Start a Run of ``loom`` and work until it waits for an agent; the agent, its call claimed."""
    caller = agent_caller(service)
    result = service.operate("run", caller=caller, loomName=loom, input=plan)
    assert "error" not in result, result
    agent = Agent(service, caller, result["run"]["runId"])
    service.work()
    run = agent.run()
    assert run["status"] == "waiting", run
    agent.call_id = run["pendingAgentCall"]["id"]
    if claim:
        assert agent.claim()["ownerToken"] == agent.token
    return agent


def state_of(agent: Agent) -> Any:
    """The State of the Stage that the agent works in."""
    run = Run.objects.select_related("state").get(pk=agent.run_id)
    assert run.state is not None
    return run.state.data


def event_types(run_id: str) -> list[str]:
    return list(Event.objects.filter(run_id=run_id).order_by("seq").values_list("type", flat=True))


def everything(agent: Agent) -> tuple[Any, ...]:
    """What a refused request must leave as it was."""
    return (
        agent.run(),
        agent.view(),
        state_of(agent),
        event_types(agent.run_id),
        list(ToolReceipt.objects.order_by("id").values()),
    )


def after_half_an_hour(agent: Agent) -> None:
    """Move the call's clock: its receipts have left the protocol."""
    AgentCall.objects.filter(pk=agent.call_id).update(receipts_until=database_time_after(-1))


def in_thread(job: Any) -> tuple[threading.Thread, list[Any]]:
    box: list[Any] = []

    def body() -> None:
        try:
            box.append(job())
        finally:
            connection.close()

    thread = threading.Thread(target=body)
    thread.start()
    return thread, box


def lingering(service: Service, tmp_path: Path) -> tuple[Agent, Path, threading.Thread, list[Any]]:
    """An agent one of whose Tools is running until the returned gate is made."""
    gate, mark = tmp_path / "gate", tmp_path / "mark"
    agent = waiting_agent(service, gate=str(gate), mark=str(mark))
    thread, box = in_thread(lambda: agent.tool("linger", "slow"))
    while not mark.exists():
        assert thread.is_alive(), box
        thread.join(0.01)
    return agent, gate, thread, box


def begun_tool(agent: Agent, tool_call_id: str, **arguments: Any) -> tuple[Started, ToolOutput]:
    """A call of the Tool ``add`` that has run and is about to settle, or never will if its process died."""
    reference = {"runId": agent.run_id, "callId": agent.call_id, "ownerToken": agent.token}
    given = {"toolCallId": tool_call_id, "toolId": "add", "input": arguments}
    request = CallAgentTool.parse({**reference, **given})
    asked = KnownToolCall("add", json_text.digest(arguments))
    started = tool_calls._start(agent.caller, request, asked, is_end_tool=False, now=clock.now())
    assert isinstance(started, Started)
    loom = load_release(Run.objects.get(pk=agent.run_id).release_digest)
    tool = loom.agents["work", "write"].tool("add")
    assert tool is not None
    return started, tool_calls._run(started, loom, tool, arguments)


LOOM = """\
loom: {name}
title: {name}
description: Made by a test.
{top}entry: only
stages:
  only:
    {stage}entry: act
    steps:
      act:
        agent: doer
        output: code:Output
{step}        on: {{done: end, again: act}}
    on: {{done: end}}
"""

#: A Tool that takes anything.
ANY = """
@tool
def take(call: ToolCall[Notes], value: Any) -> int:
    call.update(number=call.state.number + 1)
    return call.state.number
"""

CODE = """\
import asyncio, os, sys, threading, time
from enum import Enum
from pathlib import Path
from typing import *
from pydantic import *
from loomsvc.authoring import *

class Inner(BaseModel):
    words: list[str] = []

class Notes(BaseModel):
    words: list[str] = []
    inner: Inner = Inner()
    number: int = 0

class Output(BaseModel):
    outcome: Literal["done", "again"]

def begin(context):
    return Notes()

"""

STATEFUL = "state: code:Notes\n    initialize: code:begin\n    "


def make_agent_loom(
    folder: Path,
    name: str,
    code: str = "",
    *,
    tools: tuple[str, ...] = (),
    step: str = "",
    stage: str = STATEFUL,
    top: str = "",
) -> str:
    """A Loom of one Agent Step, its first, with ``tools`` from ``code`` and ``step`` keys; its name."""
    place = folder / name
    (place / "agents").mkdir(parents=True)
    keys = [*step.splitlines(), *([f"tools: [{', '.join(f'code:{tool}' for tool in tools)}]"] if tools else [])]
    text = LOOM.format(name=name, step="".join(f"        {key}\n" for key in keys), stage=stage, top=top)
    (place / "loom.yaml").write_text(text)
    (place / "agents/doer.md").write_text("---\nname: Doer\ndescription: Does.\n---\nDo it.\n")
    (place / "code.py").write_text(CODE + code)
    return name
