"""Background agents on real processes: polled to their end, cut off amid a model call, and leaving no secret behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from tests.acceptance.conftest import Scene
from tests.acceptance.scaled import RECOVERY_SECONDS, ROOT, Client, eventually
from tests.loopback_provider import INPUT_TOKENS, OUTPUT_TOKENS, Provider, fails, hands_in, loopback_provider, says

SCHEMA = {
    "type": "object",
    "properties": {"title": {"type": "string"}, "pages": {"type": "integer"}},
    "required": ["title", "pages"],
}
BOOK = {"title": "Looms", "pages": 120}
KEYS = {"open": "sk-open-sentinel-4b1c7e90aa51", "claude": "sk-claude-sentinel-77d20f3be8c4"}
_KEEP = """
import sys, django
django.setup()
from apps.access.selectors.projects import project_named
from apps.agent_sessions.services.provider_keys import set_provider_key
from apps.core import clock
for provider, key in zip(sys.argv[1::2], sys.argv[2::2]):
    set_provider_key(project_id=project_named("trials").pk, provider=provider, key=key, by="op", now=clock.now())
"""


class Agent:
    """An agent that was started at a web process, and its proof."""

    def __init__(self, client: Client, **arguments: Any) -> None:
        self.client = client
        self.started = client.as_agent("run_agent", **{"input": BOOK, "output_schema": SCHEMA, **arguments})
        assert "session_secret" in self.started, self.started
        self.proof = {name: self.started[name] for name in ("id", "session_secret")}

    def status(self) -> dict[str, Any]:
        return self.client.as_agent("agent_status", **self.proof)

    def reaches(self, *states: str, within: float = 20) -> dict[str, Any]:
        found: dict[str, Any] = {}

        def look() -> bool:
            found.update(self.status())
            return found["state"] in states

        eventually(look, within=within, what=f"the agent is {' or '.join(states)}")
        return found


@pytest.fixture
def providers() -> Iterator[dict[str, Provider]]:
    with loopback_provider() as openai, loopback_provider() as anthropic:
        yield {"open": openai, "claude": anthropic}


def settings_for(scene: Scene, providers: dict[str, Provider]) -> dict[str, str]:
    file = scene.folder / "models.yaml"
    kinds = {"open": "openai", "claude": "anthropic"}
    described = "".join(
        f"  {name}: {{kind: {kinds[name]}, base_url: '{providers[name].base_url(kinds[name])}', models: [m]}}\n"
        for name in kinds
    )
    file.write_text(f"providers:\n{described}allow_hosts: [127.0.0.1]\n")
    return {"LOOMSVC_MODELS": str(file), "LOOMSVC_KEY_SECRETS": "for-tests-" + "k3y" * 12}


def keep_keys(scene: Scene, environment: dict[str, str]) -> None:
    arguments = [part for pair in KEYS.items() for part in pair]
    subprocess.run(
        [sys.executable, "-c", _KEEP, *arguments],
        cwd=ROOT, env=scene.deployment.environment(**environment), check=True, timeout=60,
    )  # fmt: skip


def everything_kept(scene: Scene) -> str:
    """The whole database as text, all of Redis, and every log."""
    parts = []
    with psycopg.connect(scene.deployment.database_url, autocommit=True) as connection:
        tables = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
        for (table,) in tables:
            with connection.cursor().copy(f'COPY "{table}" TO STDOUT') as rows:
                parts += [bytes(row).decode(errors="replace") for row in rows]
    broker = scene.deployment.broker.client
    parts += [repr(broker.dump(key)) for key in broker.keys("*")]
    parts += [process.text() for process in scene.deployment.processes]
    return "\n".join(parts)


@pytest.mark.timeout(300)
@pytest.mark.rule("B2", "B3", "B6", "B9", "K6", "K17", "K18", "E6")
def test_agents_reach_their_end_on_every_provider_and_a_worker_killed_amid_a_call_repeats_nothing(
    scene: Scene, providers: dict[str, Provider]
) -> None:
    environment = settings_for(scene, providers)
    keep_keys(scene, environment)
    client = scene.deployment.web(LOOMSVC_LOG_LEVEL="DEBUG", **environment)
    scene.deployment.sweep(**environment)
    worker = scene.deployment.worker(slots=2, level="DEBUG", **environment)
    for provider in providers.values():
        provider.answers = [hands_in(BOOK), fails(401)]
    agents = [Agent(client, model=model) for model in ("offline", "open/m", "claude/m")]
    for agent in agents:
        status = agent.reaches("succeeded", "failed")
        assert (status["state"], status["output"], status["error"]) == ("succeeded", BOOK, None), status
        assert status["program_digest"] == agent.started["program_digest"]
    usage = agents[1].status()["usage"]
    assert usage["requests"] == 1 and usage["total_tokens"] == INPUT_TOKENS + OUTPUT_TOKENS

    refused = Agent(client, model="claude/m").reaches("succeeded", "failed")
    assert refused["error"]["reason"] == "provider_key_refused"
    assert refused["error"]["recovery"]["action"] == "configure_provider_key"

    slow = providers["open"]
    slow.requests.clear()
    slow.asked.clear()
    slow.answers = [says("too late", seconds=60)]
    cut_off = Agent(client, model="open/m")
    assert slow.asked.wait(20)
    assert cut_off.status()["state"] == "running"
    (busy,) = {pid for (pid,) in _owners(scene)} & {str(pid) for pid in worker.children()}
    os.kill(int(busy), signal.SIGKILL)
    status = cut_off.reaches("failed", "succeeded", within=RECOVERY_SECONDS)
    assert status["error"]["reason"] == "interrupted" and status["output"] is None
    assert Agent(client, model="offline").reaches("succeeded"), "the pool goes on"
    assert len(slow.requests) == 1, "nothing was sent again"
    counted = scene.deployment.sql("SELECT sum(sessions) FROM agent_sessions_modelusage WHERE model = 'open/m'")
    assert counted == [(2,)], "each was counted once"

    kept = everything_kept(scene)
    assert "agent session" in kept and str(cut_off.started["agent_session_id"]) in kept
    for agent in (*agents, cut_off):
        secret = agent.proof["session_secret"].rpartition("_")[2]
        assert secret not in kept and not re.search(re.escape(secret[:16]), kept)
    for key in KEYS.values():
        assert key not in kept and key[:18] not in kept


def _owners(scene: Scene) -> list[tuple[str]]:
    owners = scene.deployment.sql("SELECT lease_owner FROM agent_sessions_agentsession WHERE state = 'running'")
    return [(str(owner).rpartition(":")[2],) for (owner,) in owners]
