"""An agent without a model: it does over MCP what a Loom's test script says its agents do."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from rich.text import Text

from apps.core.errors import LoomError
from apps.looms.scripts import PlayShape
from apps.mcp.following import Caller, View
from apps.mcp.terminal import plain


@dataclass
class ScriptedAgent:
    """Claims a Run's agent calls, reads the assets of its Skills, has the script's Tools run, and submits.

    A Step that is visited more often than the script knows is done as at its last visit.  What a person
    answered goes into the specification that is saved next, so that they read it in what they confirm.
    """

    service: Caller
    plays: Mapping[str, list[PlayShape]]
    console: Console
    _done: dict[str, int] = field(default_factory=dict)
    _answers: list[Mapping[str, Any]] = field(default_factory=list)

    def work(self, view: View) -> None:
        """Do the pending agent call of a Run."""
        call = view["pendingAgentCall"]
        task = {"runId": view["runId"], "callId": call["id"]}
        claimed = self.service.call("claim_agent_call", {**task, "claimId": str(uuid.uuid4())})
        owned = {**task, "ownerToken": claimed["ownerToken"]}
        step = view["cursor"]["step"]
        self._say(f"{call['agentId']} claims {view['cursor']['stage']}/{step}", style="bold magenta")
        for skill in claimed["task"]["skills"]:
            for asset in skill["assets"]:
                self.service.call("read_agent_asset", {**owned, "assetId": asset["id"]})
                self._say(f"  · reads {asset['id']} of its Skill {skill['name']}")
        play, is_news = self._next_play(step)
        for use in play.calls:
            self._use(owned, use.tool, self._with_answers(use.tool, use.input))
        if not is_news:
            self._say("  · (the script knows nothing new here: it hands in the same again)")
        self.service.call("complete_agent_call", {**owned, "result": play.output})
        self._say(f"  → submits {play.output['outcome']}")

    def _next_play(self, step: str) -> tuple[PlayShape, bool]:
        """What the script has the agent do at this visit, and whether it does it for the first time."""
        plays = self.plays[step]
        done = self._done.get(step, 0)
        self._done[step] = done + 1
        return plays[min(done, len(plays) - 1)], done < len(plays)

    def _use(self, owned: Mapping[str, Any], tool: str, arguments: dict[str, Any]) -> None:
        request = {**owned, "toolCallId": str(uuid.uuid4()), "toolId": tool, "input": arguments}
        about = arguments.get("path", "")
        try:
            called = self.service.call("call_agent_tool", request)
        except LoomError as refusal:
            self._say(f"  ✗ {tool} {about}  {refusal.message}", style="red")
            raise
        self._say(f"  ✓ {tool} {about}".rstrip())
        if tool == "read_wish":
            self._answers = called["output"]["answers"]

    def _with_answers(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        if tool != "save_specification":
            return arguments
        specification = arguments["specification"]
        told = [*specification.get("assumptions", ()), *self._in_words()]
        return {**arguments, "specification": {**specification, "assumptions": told}}

    def _in_words(self) -> Iterator[str]:
        for asked in self._answers:
            if asked["answer"] is not None:
                yield f'Asked "{asked["question"]}", the person said: {asked["answer"]}'[:1000]

    def _say(self, line: str, style: str = "") -> None:
        self.console.print(Text(plain(line), style=style))
