"""Two clients at two web processes meet at one Run: one legal state, and the loser is told why (F21)."""

from __future__ import annotations

import random
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest

from tests.acceptance.agent_at_work import Agent, Story, story_of, waiting_agent
from tests.acceptance.auditor import audit
from tests.acceptance.scaled import Client, Deployment
from tests.chances import chance, rounds

ROUNDS = rounds(5)


@pytest.fixture(scope="module")
def workshop(deployment: Deployment) -> Iterator[Deployment]:
    """The deployment with a worker and a sweep, for all races."""
    before = len(deployment.processes)
    deployment.worker(pool="threads", slots=4)
    deployment.sweep()
    yield deployment
    deployment.kill_since(before)
    deployment.broker.client.flushdb()


@dataclass(frozen=True)
class Legal:
    """What a pair of answers means: how the agent call was closed, and how the Run may end."""

    closed_as: str
    ends: tuple[str, ...]


DONE = Legal("completed", ("completed",))
#: What the two may be told, and what the ledger must hold afterwards.
LEGAL: dict[str, dict[tuple[str, str], Legal]] = {
    "answer/cancel": {
        ("applied", "applied"): Legal("", ("cancelled",)),
        ("applied", "none"): Legal("", ("completed",)),
        ("CONFLICT", "applied"): Legal("", ("cancelled",)),
    },
    "claim/claim": {("claimed", "CONFLICT"): DONE, ("CONFLICT", "claimed"): DONE},
    "complete/cancel": {
        ("accepted", "applied"): Legal("completed", ("cancelled",)),
        ("accepted", "none"): DONE,
        ("CONFLICT", "applied"): Legal("cancelled", ("cancelled",)),
    },
    "Tool/complete": {
        ("completed", "accepted"): DONE,
        ("completed", "BUSY"): DONE,
        ("CONFLICT", "accepted"): DONE,
    },
    "Tool/cancel": {
        ("completed", "applied"): Legal("cancelled", ("cancelled",)),
        ("indeterminate", "applied"): Legal("cancelled", ("cancelled",)),
        ("CONFLICT", "applied"): Legal("cancelled", ("cancelled",)),
    },
    "resume/resume": {("applied", "CONFLICT"): DONE, ("CONFLICT", "applied"): DONE},
}

Body = Callable[[], dict[str, Any]]


@dataclass
class Round:
    """A Run, what two clients do to it, and the agents that do it, if any."""

    run_id: str
    bodies: tuple[Body, Body]
    agents: tuple[Agent, ...] = ()


def set_up(name: str, webs: list[Client]) -> Round:
    here, there = webs[:2]
    instance = here.instance_id()

    def operation(client: Client, verb: str, run_id: str, **arguments: Any) -> Body:
        identity = {"operationId": str(uuid.uuid4()), "serviceInstanceId": instance}
        return lambda: client.tool(verb, runId=run_id, **identity, **arguments)

    if name == "answer/cancel":
        run_id = here.start(do=[{"ending": "ask"}, {"ending": "again"}])
        action = here.reaches(run_id, "waiting")["pendingAction"]["id"]
        answer = [{"questionId": "q", "isSkipped": False, "answer": "yes"}]
        answering = operation(here, "answer_ask", run_id, actionId=action, answer=answer)
        return Round(run_id, (answering, operation(there, "cancel_run", run_id)))
    agent = waiting_agent(here, claim=name != "claim/claim")
    run_id = agent.run_id
    if name == "claim/claim":
        rival = Agent(there, run_id, agent.call_id)
        return Round(run_id, (agent.claim, rival.claim), (agent, rival))
    if name == "resume/resume":
        assert operation(here, "pause_run", run_id)()["run"]["pauseRequested"] is True
        assert "receipt" in agent.complete()
        revision = here.reaches(run_id, "paused")["revision"]
        first, second = (operation(web, "resume_run", run_id, expectedRevision=revision) for web in (here, there))
        return Round(run_id, (first, second))
    one = agent.complete if name.startswith("complete") else lambda: agent.tool("add", "one", line="one")
    elsewhere = agent.at(there)
    other = elsewhere.complete if name.endswith("complete") else operation(there, "cancel_run", run_id)
    return Round(run_id, (one, other), (agent,))


def meet(bodies: tuple[Body, Body], moments: random.Random) -> list[dict[str, Any]]:
    """Send both, one up to 20 ms after the other."""
    delays = [moments.uniform(0, 0.02), moments.uniform(0, 0.02)]

    def send(body: Body, delay: float) -> dict[str, Any]:
        time.sleep(delay)
        return body()

    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(send, bodies, delays))


def told(answer: dict[str, Any]) -> str:
    """What a client was told, in one word; a refusal says why in words too."""
    if "error" in answer and answer.get("receipt", {}).get("status") != "indeterminate":
        assert len(answer["error"]["message"]) > 20, answer
        return str(answer["error"]["code"])
    if "ownerToken" in answer:
        return "claimed"
    receipt = answer["receipt"]
    return str(receipt.get("effect", receipt["status"]))


@pytest.mark.rule("F13", "F21", "H3", "A2", "A3", "A4", "A8", "A10", "R10", "R11", "R16")
@pytest.mark.timeout(60 + 5 * ROUNDS)
@pytest.mark.parametrize("name", LEGAL)
def test_of_two_clients_that_meet_at_one_run_each_is_told_the_truth_and_the_ledger_has_one_state(
    workshop: Deployment, name: str
) -> None:
    ends: Counter[tuple[str, str]] = Counter()
    for number in range(ROUNDS):
        seed = f"{name} {number}"
        scene = set_up(name, workshop.webs)
        answers = meet(scene.bodies, chance(seed))
        words = told(answers[0]), told(answers[1])
        ends[words] += 1
        assert words in LEGAL[name], (seed, answers)
        story_of(workshop.database_url, scene.run_id)  # whatever a worker is doing to it by now
        _go_on(workshop.webs[1], scene, words)
        story = story_of(workshop.database_url, scene.run_id)
        try:
            _check(name, words, story)
        except AssertionError as error:
            raise AssertionError(f"{seed}: {answers}, {story}: {error}") from None
    print(f"{ROUNDS} rounds of {name}: {dict(ends)}")
    audit(workshop.database_url)


def _go_on(client: Client, scene: Round, words: tuple[str, str]) -> None:
    """Whatever the two left behind, the Run comes to its end: the owner of an open call can still complete it."""
    if scene.agents and client.run(scene.run_id)["status"] == "waiting":
        owner = scene.agents[-1 if words[0] == "CONFLICT" else 0]
        assert "receipt" in owner.at(client).complete()
    client.reaches(scene.run_id, "completed", "failed", "cancelled")


def _check(name: str, words: tuple[str, str], story: Story) -> None:
    """The ledger holds exactly what the two were told."""
    legal = LEGAL[name][words]
    verbs = {"answer": "answer_ask", "cancel": "cancel_run", "resume": "resume_run"}
    operations = Counter(
        (verbs[verb], "rejected" if word == "CONFLICT" else "accepted", word)
        for verb, word in zip(name.split("/"), words, strict=True)
        if verb in verbs
    )
    if name == "resume/resume":
        operations["pause_run", "accepted", "applied"] = 1
    assert story.operations == operations
    assert story.status in legal.ends
    assert story.events.count("RunCancelled") == (story.status == "cancelled")
    assert story.events.count("RunCompleted") == (story.status == "completed")
    if name == "answer/cancel":
        return
    assert story.calls == [legal.closed_as]
    assert (story.events.count("AgentCallClaimed"), story.events.count("AgentCallClosed")) == (1, 1)
    assert [status for step, status in story.attempts if step == "write"] == [legal.closed_as]
    made = {"one": words[0]} if name.startswith("Tool") and words[0] != "CONFLICT" else {}
    assert story.receipts == made
    assert story.state == {"lines": ["one"] if made.get("one") == "completed" else []}
