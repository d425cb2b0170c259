"""Which model carries out an Agent Step, and what becomes of a Run whose model cannot (R15)."""

# ruff: noqa: F811 - the fixtures come from model_work
from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from background_agents import Client

from apps.agent_sessions.runtime import models
from apps.core.caller import Source
from apps.looms.services import releases
from apps.runs.models import Run
from tests.conftest import Service
from tests.integration.model_work import counting, give_key, provider  # noqa: F401
from tests.loopback_provider import Provider, hands_in

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.rule("B2", "B6", "B8")
@pytest.mark.parametrize("script", [b"agents: [", b"\xff"])
def test_a_script_for_the_offline_model_that_cannot_be_read_is_in_no_other_models_way(
    service: Service, counting: None, provider: Provider, loom_paths: Path, script: bytes
) -> None:
    give_key(service)
    (loom_paths / "counting" / "offline.yaml").write_bytes(script)
    provider.answers = [hands_in({"outcome": "done"})]
    assert service.finish("counting")["status"] == "completed"
    agent = Client(service)
    agent.start(agent="counting/counter", model="loop/test-model", input={})
    agent.work()
    assert agent.status()["state"] == "succeeded"
    agent.start(agent="counting/counter", model="offline", input={})
    agent.work()
    assert (agent.status()["state"], "offline.yaml" in agent.status()["error"]["message"]) == ("failed", True)


@pytest.mark.rule("R15")
def test_a_run_whose_model_lacks_its_key_is_rejected_and_leaves_its_receipt_only(
    service: Service, counting: None, provider: Provider
) -> None:
    refused = service.operate("run", loomName="counting", input="x")
    assert refused["error"]["code"] == "UNAVAILABLE"
    assert "loop/test-model needs a key" in refused["error"]["message"]
    assert refused["receipt"]["status"] == "rejected"
    assert not Run.objects.exists()
    # Another Loom's Agent Step has another role, and so another model.
    assert service.operate("run", loomName="agentic", input="x")["receipt"]["status"] == "accepted"
    give_key(service)
    assert service.operate("run", loomName="counting", input="x")["receipt"]["status"] == "accepted"


@pytest.mark.rule("R15")
def test_a_key_that_goes_away_pauses_the_run_before_anything_is_sent(
    service: Service, counting: None, provider: Provider
) -> None:
    from apps.agent_sessions.services.provider_keys import remove_provider_key

    give_key(service)
    provider.answers = [hands_in({"outcome": "done"})]
    run_id = service.start("counting")
    remove_provider_key(project_id=service.caller.project_id, provider="loop")
    service.work()
    paused = service.run(run_id)
    assert (paused["status"], paused["lastError"]["code"]) == ("paused", "MODEL_REQUEST_FAILED")
    assert provider.requests == []
    give_key(service)
    service.operate("resume_run", runId=run_id, expectedRevision=paused["revision"])
    service.work()
    assert service.run(run_id)["status"] == "completed"


@pytest.mark.rule("R15")
def test_without_a_file_the_offline_model_does_every_agent_step(service: Service) -> None:
    assert service.call("status")["service"]["ready"] is True
    run = service.finish("agentic")
    assert (run["status"], run["outcome"]) == ("completed", "done")
    assert run["usage"]["requests"] == 1


@pytest.mark.rule("R15")
def test_a_file_of_models_that_cannot_be_used_is_said_to_every_source_that_needs_it(
    service: Service, settings: Any, tmp_path: Path
) -> None:
    file = tmp_path / "models.yaml"
    file.write_text("providers: {p: {kind: openai, base_url: 'file:///etc/passwd', models: [m]}}\n")
    settings.LOOMSVC = replace(settings.LOOMSVC, models_file=file)
    said = service.call("status")["service"]
    assert said["ready"] is False
    assert "models.yaml" in said["notReadyBecause"]
    assert str(tmp_path) not in said["notReadyBecause"]
    refused = service.operate("run", loomName="agentic", input="x")
    assert refused["error"]["code"] == "UNAVAILABLE"
    there = replace(service.caller, source=Source.AGENT_IDE, entry="/mcp")
    assert service.call("status", there)["service"]["ready"] is True


@pytest.mark.rule("R15", "B8")
def test_no_policy_falls_back_to_another(service: Service, counting: None, provider: Provider) -> None:
    there = replace(service.caller, source=Source.AGENT_IDE, entry="/mcp")
    identity = {"operationId": "0198c1f2-7c7e-7000-8000-000000000009", "serviceInstanceId": service.instance_id}
    run_id = service.call("run", there, **identity, loomName="counting", input="x")["run"]["runId"]
    service.work()
    waiting = service.run(run_id)
    assert (waiting["status"], waiting["execution"]["agentExecutor"]) == ("waiting", "mcp_client")
    assert provider.requests == []
    give_key(service)
    provider.answers = [hands_in({"outcome": "done"})]
    mine = service.finish("counting")
    assert (mine["status"], "pendingAgentCall" in mine) == ("completed", False)


@pytest.mark.rule("B6", "B8")
def test_intent_runs_to_its_end_with_the_offline_model(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.setenv("LOOM_INTENT_ROOTS", str(tmp_path))
    # A Release keeps the settings that it was loaded with in this process.
    monkeypatch.setattr(releases, "_loaded", {})
    run_id = service.start("intent", wish="Say hello.", folder=str(folder))
    for answer in ([{"questionId": "title", "isSkipped": False, "answer": "A wish"}], *[{"isConfirmed": True}] * 2):
        service.work()
        waiting = service.run(run_id)
        assert waiting["status"] == "waiting", waiting
        service.operate("answer_ask", runId=run_id, actionId=waiting["pendingAction"]["id"], answer=answer)
    service.work()
    run = service.run(run_id)
    assert (run["status"], run["outcome"]) == ("completed", "validated"), run
    assert (folder / "WISH.md").read_text() == "# A wish\n\nSay hello.\n"
    assert run["usage"]["requests"] == 15
    report = service.call("get_artifact", loomName="intent", stageName="validation")["artifact"]["data"]
    assert report["verdict"] == "validated"


def test_the_catalogue_is_read_once(provider: Provider) -> None:
    assert models.catalogue() is models.catalogue()
