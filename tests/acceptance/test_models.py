"""A Loom with agents from the terminal with the `offline` model, and a worker that is killed while a model thinks."""

# ruff: noqa: F811 - the fixtures come from local_service
from __future__ import annotations

import json
from pathlib import Path

import pytest
from local_service import Services, at_terminal, services  # noqa: F401

from tests.acceptance.conftest import Scene
from tests.acceptance.scaled import eventually
from tests.loopback_provider import hands_in, loopback_provider


@pytest.mark.rule("B6", "B8", "R15")
@pytest.mark.timeout(300)
def test_intent_is_run_from_the_terminal_with_the_offline_model(services: Services, tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    up = services.up(tmp_path / "data", LOOM_INTENT_ROOTS=str(folder))
    given = ["run_loom", "intent", "--input", json.dumps({"wish": "Say hello.", "folder": str(folder)})]
    dialogue = [("[answer]", "From the terminal"), ("[y/n]", "y"), ("(empty for none)", "")]
    shown = at_terminal(up.folder, given, [*dialogue, *dialogue[1:]])
    assert "What shall stand above the wish?" in shown
    assert "completed" in shown
    assert (folder / "WISH.md").read_text() == "# From the terminal\n\nSay hello.\n"
    answers = tmp_path / "answers.json"
    title = {"questionId": "title", "isSkipped": False, "answer": "From a file"}
    answers.write_text(json.dumps([[title], {"isConfirmed": True}, {"isConfirmed": True}]))
    done = up.command(*given, "--answers", str(answers))
    assert done.returncode == 0, done.stdout + done.stderr
    assert (folder / "WISH.md").read_text().startswith("# From a file\n")
    runs = up.rest("/api/v1/runs?loomName=intent")["runs"]
    assert [(run["outcome"], run["usage"]["requests"]) for run in runs] == [("validated", 15)] * 2


@pytest.mark.rule("B9", "R13", "F26")
def test_a_worker_killed_while_a_model_thinks_ends_the_run_and_sends_nothing_again(scene: Scene) -> None:
    with loopback_provider() as provider:
        provider.answers = [hands_in({"outcome": "done"}, seconds=30)]
        file = scene.folder / "models.yaml"
        described = f"{{kind: openai, base_url: '{provider.base_url('openai')}', key: none, models: [m]}}"
        file.write_text(f"providers: {{loop: {described}}}\nallow_hosts: ['{provider.host}']\ndefault: loop/m\n")
        worker = scene.deployment.worker(slots=1, LOOMSVC_MODELS=str(file))
        run_id = scene.client.start("agentic")
        eventually(provider.asked.is_set, within=30, what="the model is asked")
        worker.kill()
        scene.deployment.sweep()
        scene.deployment.worker(slots=1, LOOMSVC_MODELS=str(file))
        run = scene.client.reaches(run_id, "failed", "completed")
        assert run["lastError"]["code"] == "RUN_INTERRUPTED"
        assert run["usage"]["requests"] == len(provider.requests) == 1
        assert [attempt["status"] for attempt in scene.client.attempts(run_id)] == ["indeterminate"]
