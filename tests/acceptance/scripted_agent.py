"""External agents over the official client: one that plays a script, and one in a process of its own.

A script is that of ``loom_test``: for each Agent Step what its agent does at each visit, and what
people say, in order.  Run as a program, this module is one session: its first line names the Entry,
each further line is ``[tool, arguments]`` and is answered by one line.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import httpx
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client

if TYPE_CHECKING:
    from apps.looms.scripts import PlayShape, ScriptShape

Json = dict[str, Any]


class Client:
    """An open session.  Structured results are given as they come, those of errors too."""

    def __init__(self, session: ClientSession) -> None:
        self._session = session

    async def call(self, tool: str, /, **arguments: Any) -> Json:
        result = await self._session.call_tool(tool, arguments)
        assert result.structuredContent is not None, result
        assert not result.isError or "error" in result.structuredContent
        return result.structuredContent

    async def operate(self, tool: str, /, **arguments: Any) -> Json:
        """A write under an identity of its own."""
        instance = (await self.call("status"))["service"]["instanceId"]
        return await self.call(tool, operationId=str(uuid.uuid4()), serviceInstanceId=instance, **arguments)

    async def start(self, loom: str, given: Any) -> str:
        started = await self.operate("run", loomName=loom, input=given)
        assert started["receipt"]["status"] == "accepted", started
        return str(started["run"]["runId"])

    async def at_rest(self, run_id: str) -> Json:
        """The Run once it waits for somebody, is paused or has ended."""
        while True:
            run: Json = (await self.call("get_run", runId=run_id))["run"]
            if run["status"] not in ("queued", "running"):
                return run
            await asyncio.sleep(0.02)


@asynccontextmanager
async def connected(url: str, token: str) -> AsyncIterator[Client]:
    """A session at an Entry's address."""
    headers = {"authorization": f"Bearer {token}"}
    async with (
        httpx.AsyncClient(headers=headers, trust_env=False, timeout=60) as http,
        streamable_http_client(url, http_client=http) as (read, write, _),
        ClientSession(read, write) as session,
    ):
        await session.initialize()
        yield Client(session)


def drive(url: str, token: str, act: Callable[[Client], Coroutine[Any, Any, None]], *, seconds: float = 100) -> None:
    """Do something in a session of its own, from plain code."""

    async def session() -> None:
        async with connected(url, token) as client:
            await act(client)

    asyncio.run(asyncio.wait_for(session(), seconds))


@dataclass
class ScriptedAgent:
    """Carries out the Agent Steps of a Run, and hands on what its person says.

    Every Tool call is sent twice, so that a script also shows that nothing runs twice.
    """

    client: Client
    script: ScriptShape
    #: Gives, in another way, the answers that only a person may give: takes the Run and the answer.
    person: Callable[[Json, Any], object] | None = None
    tasks: list[Json] = field(default_factory=list)
    #: What every Tool call came to, in order.
    results: list[Json] = field(default_factory=list)

    async def finish(self, run_id: str) -> Json:
        """Play until the Run has ended; it then has used up the script."""
        plays = {step: iter(visits) for step, visits in self.script.agents.items()}
        answers = iter(self.script.answers)
        while True:
            run = await self.client.at_rest(run_id)
            if "pendingAgentCall" in run:
                await self._work(run, next(plays[run["cursor"]["step"]]))
            elif "pendingAction" in run:
                await self._answer(run, next(answers))
            else:
                unused = [play for visits in [*plays.values(), answers] for play in visits]
                assert not unused, (run, unused)
                return run

    async def _work(self, run: Json, play: PlayShape) -> None:
        call = self.client.call
        reference = {"runId": run["runId"], "callId": run["pendingAgentCall"]["id"]}
        seen = (await call("get_agent_call", **reference))["agentCall"]
        assert (seen["pending"], seen["receipts"]) == (run["pendingAgentCall"], [])
        claimed = await call("claim_agent_call", **reference, claimId=str(uuid.uuid4()))
        assert claimed["task"] == seen["task"]
        self.tasks.append(claimed["task"])
        owned = {**reference, "ownerToken": claimed["ownerToken"]}
        for skill in claimed["task"]["skills"]:
            for asset in skill["assets"]:
                await self._read(owned, asset)
        for number, one in enumerate(play.calls, 1):
            request = {**owned, "toolCallId": f"call-{number}", "toolId": one.tool, "input": one.input}
            result = await call("call_agent_tool", **request)
            assert await call("call_agent_tool", **request) == result
            self.results.append(result)
            assert result["receipt"]["status"] == ("completed" if one.error is None else "failed"), result
            assert one.error is None or one.error in result["error"]["message"], result
            assert "output" not in one.model_fields_set or result["output"] == one.output
        accepted = await call("complete_agent_call", **owned, result=play.output)
        assert accepted == {"receipt": {**reference, "status": "accepted"}}

    async def _read(self, owned: Json, listed: Json) -> None:
        asset = (await self.client.call("read_agent_asset", **owned, assetId=listed["id"]))["asset"]
        text = asset["content"]
        content = text.encode() if asset["encoding"] == "utf8" else base64.b64decode(text)
        assert (asset["name"], len(content)) == (listed["name"], listed["size"])
        assert asset["sha256"] == hashlib.sha256(content).hexdigest()

    async def _answer(self, run: Json, said: Any) -> None:
        action = run["pendingAction"]
        answer = on_the_wire(action, said)
        arguments = {"runId": run["runId"], "actionId": action["id"], "answer": answer}
        given = await self.client.operate("answer_ask", **arguments)
        if action["onlyPerson"]:
            assert (given["error"]["code"], "receipt" in given) == ("FORBIDDEN", False), given
            assert self.person is not None, "this script needs a person"
            await asyncio.to_thread(self.person, run, answer)
        else:
            assert given["receipt"]["status"] == "accepted", given


def on_the_wire(action: Json, said: Any) -> Any:
    """An answer of a script as its Action takes it."""
    if action["kind"] == "confirmation":
        return {"isConfirmed": said} if isinstance(said, bool) else said
    texts = {question["id"]: said.get(question["id"]) for question in action["request"]}
    return [
        {"questionId": question, "isSkipped": True}
        if text is None
        else {"questionId": question, "isSkipped": False, "answer": text}
        for question, text in texts.items()
    ]


class OtherProcess:
    """A session of the official client in an operating-system process of its own."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def call(self, tool: str, /, **arguments: Any) -> Json:
        answer: Json = json.loads(self._exchange([tool, arguments]))
        return answer

    def _exchange(self, line: Any) -> str:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(json.dumps(line), file=self.process.stdin, flush=True)
        return self.process.stdout.readline()


@contextmanager
def other_process(url: str, token: str) -> Iterator[OtherProcess]:
    """Start one; it is killed when the block ends."""
    process = subprocess.Popen([sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with process:
        try:
            other = OtherProcess(process)
            assert other._exchange([url, token]) == "connected\n"
            yield other
        finally:
            process.kill()


async def _serve() -> None:
    url, token = json.loads(await asyncio.to_thread(sys.stdin.readline))
    async with connected(url, token) as client:
        print("connected", flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            tool, arguments = json.loads(line)
            print(json.dumps(await client.call(tool, **arguments)), flush=True)


if __name__ == "__main__":
    asyncio.run(_serve())
