"""What every Python client is made to do: play a plan.

A plan has the Loom and its input, what agents do at each visit of their Steps, and how the client's
human fills in each form, one after the other.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

Json = dict[str, Any]
#: A Tool's name and arguments → its structured result, that of an error too.
Call = Callable[[str, Json], Awaitable[Json]]


class Human:
    """Fills in forms by what they see: the titles of the fields."""

    def __init__(self, forms: list[Json | None]) -> None:
        self._forms = iter(forms)
        self.seen: list[str] = []

    def fill_in(self, message: str, schema: Json) -> Json:
        self.seen.append(message)
        said = next(self._forms)
        if said is None:
            return {"action": "decline"}
        names = {field["title"]: name for name, field in schema["properties"].items()}
        return {"action": "accept", "content": {names[title]: value for title, value in said.items()}}


async def play(plan: Json, call: Call) -> Json:
    """Start the Run, do what it asks until it has ended, and tell what came of it."""
    refused = await call("run", {})

    async def ask(tool: str, **arguments: Any) -> Json:
        result = await call(tool, arguments)
        assert "error" not in result, (tool, result)
        return result

    instance = (await ask("status"))["service"]["instanceId"]
    plays = {step: iter(visits) for step, visits in plan["agents"].items()}
    interactions = []

    def identity() -> Json:
        return {"operationId": str(uuid.uuid4()), "serviceInstanceId": instance}

    run = (await ask("run", loomName=plan["loom"], input=plan["input"], **identity()))["run"]
    while True:
        run = (await ask("get_run", runId=run["runId"]))["run"]
        if "pendingAction" in run:
            action = {"runId": run["runId"], "actionId": run["pendingAction"]["id"]}
            interactions.append(await ask("interact", **action, **identity()))
        elif "pendingAgentCall" in run:
            await work(ask, run, plays[run["cursor"]["step"]])
        elif run["status"] in ("queued", "running"):
            await asyncio.sleep(0.05)
        else:
            return {"refused": refused, "run": run, "interactions": interactions}


async def work(ask: Callable[..., Awaitable[Json]], run: Json, visits: Iterator[Json]) -> None:
    """Claim the pending agent call, have its Tools run, and submit."""
    task = {"runId": run["runId"], "callId": run["pendingAgentCall"]["id"]}
    claimed = await ask("claim_agent_call", **task, claimId=str(uuid.uuid4()))
    owned = {**task, "ownerToken": claimed["ownerToken"]}
    play = next(visits)
    for use in play["calls"]:
        await ask("call_agent_tool", **owned, toolCallId=str(uuid.uuid4()), toolId=use["tool"], input=use["input"])
    await ask("complete_agent_call", **owned, result=play["output"])
