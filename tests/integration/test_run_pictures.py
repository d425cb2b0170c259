"""`loom_graph RUN`: the graph of a Run's own Release, with where the Run stands in it."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError

from tests.conftest import Service
from tests.integration.test_looms_commands import run

YAML = """
loom: changing
title: One
description: Changes.
entry: only
stages:
  only:
    entry: go
    steps:
      go: {code: "steps:go", on: {done: end}}
    on: {done: end}
"""

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_run_that_waits_is_drawn_with_what_it_visited_and_where_it_stands(service: Service) -> None:
    waiting = service.finish(do=[{"ending": "again"}, {"ending": "ask"}, {"ending": "leave"}])
    code, shown = run("loom_graph", waiting["runId"])
    assert code == 0
    assert shown.startswith(f"Run {waiting['runId']} is waiting.\ntrial ")
    (here,) = [line for line in shown.splitlines() if "? waiting" in line]
    assert "code act" in here
    assert here.endswith("? waiting, 2 visits")
    assert "✓" not in shown
    service.operate(
        "answer_ask",
        runId=waiting["runId"],
        actionId=waiting["pendingAction"]["id"],
        answer=[{"questionId": "q", "isSkipped": False, "answer": "yes"}],
    )
    service.work()
    shown = run("loom_graph", waiting["runId"])[1]
    assert "▶" not in shown and "?" not in shown
    assert [line.split("✓ ")[1] for line in shown.splitlines() if "✓" in line] == ["2 visits", "1 visit"]


def test_a_run_that_failed_shows_where_and_why(service: Service) -> None:
    failed = service.finish(do=[{"failures": 9, "error": "ValueError"}])
    shown = run("loom_graph", failed["runId"])[1]
    assert "STEP_FAILED: ValueError: attempt 1 of act" in shown
    (here,) = [line for line in shown.splitlines() if "✗" in line]
    assert here.endswith("✗ failed, 1 visit")
    text = run("loom_graph", failed["runId"], "--mermaid")[1]
    assert text.startswith("flowchart TD")
    assert "  class work__act failed\n" in text


def test_as_json_the_marks_stand_beside_the_graph(service: Service) -> None:
    done = service.finish(do=[{"ending": "leave"}])
    body: dict[str, Any] = json.loads(run("loom_graph", done["runId"].upper(), "--json")[1])
    assert {name: body[name] for name in ("loomName", "runId", "releaseDigest", "status")} == {
        "loomName": "trial", "runId": done["runId"], "releaseDigest": done["releaseDigest"], "status": "completed",
    }  # fmt: skip
    assert body["steps"] == [
        {"stage": "work", "step": "act", "mark": "visited", "visits": 1},
        {"stage": "wrap", "step": "close", "mark": "visited", "visits": 1},
    ]
    assert [stage["name"] for stage in body["graph"]["stages"]] == ["work", "wrap"]
    assert "class work__act,wrap__close visited" in body["mermaid"]


@pytest.mark.rule("R14")
def test_the_graph_is_that_of_the_runs_own_release_and_never_a_newer_one(service: Service, loom_paths: Path) -> None:
    folder = loom_paths / "changing"
    folder.mkdir()
    (folder / "loom.yaml").write_text(YAML)
    (folder / "steps.py").write_text("def go(step):\n    return 'done'\n")
    run_id = service.start("changing")
    (folder / "loom.yaml").write_text(YAML.replace("One", "Two"))
    later = service.start("changing")
    assert "changing One" in run("loom_graph", run_id)[1]
    assert "changing Two" in run("loom_graph", later)[1]


def test_a_run_that_is_not_there_is_said_and_a_folder_of_that_name_is_a_folder(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unknown = str(uuid.uuid4())
    with pytest.raises(CommandError, match=r"NOT_FOUND: No Run .* in this ledger"):
        run("loom_graph", unknown)
    with pytest.raises(CommandError, match="is no folder"):
        run("loom_graph", f"{{{unknown}}}")
    (tmp_path / unknown).mkdir()
    monkeypatch.chdir(tmp_path)
    assert run("loom_graph", unknown)[0] == 1, "and no Loom"
