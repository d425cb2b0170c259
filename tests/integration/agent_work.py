"""An external agent as tests play it: it claims a Run's call and works on it, through the Endpoints."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field, replace
from typing import Any

from apps.access.models import Project
from apps.access.services.credentials import create_credential
from apps.core import clock
from apps.core.caller import Caller, Source
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


@dataclass
class Agent:
    """An agent at one call of one Run.  Each method returns the wire result, an error's included."""

    service: Service
    caller: Caller
    run_id: str
    call_id: str = ""
    token: str = ""
    claim_id: str = field(default_factory=lambda: str(uuid.uuid4()))

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
