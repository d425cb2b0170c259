"""A Loom that reads and writes what its input says, and other hands that change the same Artifacts."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

from django.db import transaction

from apps.core import clock
from apps.looms.authoring.staging import CreateArtifact, RemoveArtifact, ReplaceArtifact
from apps.results.services.landing import Landing, land_commits
from tests.conftest import Service

LOOM = """\
loom: keeper
title: Keeper
description: Reads and writes Artifacts, one Step each.
input: steps:Plan
{exclusive}entry: main
stages:
  main:
    state: steps:Work
    initialize: steps:begin
    entry: act
    steps:
      act:
        code: steps:act
        retry: {{attempts: 2, backoff: 0s}}
        on: {{again: act, done: end}}
    on: {{done: end}}
"""
STEPS = """\
from typing import Any

from pydantic import BaseModel

from loomsvc.authoring import CodeStep, StageContext


class Plan(BaseModel):
    do: list[dict[str, Any]] = []


class Work(BaseModel):
    index: int = 0
    seen: list[Any] = []


def begin(context: StageContext[Plan]) -> Work:
    return Work()


def act(step: CodeStep[Work, Plan]) -> str:
    do = step.input.do[step.state.index] if step.state.index < len(step.input.do) else {}
    seen = list(step.state.seen)
    for loom, stage in do.get("read", []) if step.attempt == 1 else []:
        found = step.artifacts.get(loom, stage)
        seen.append(None if found is None else found.data)
    if step.attempt == 1 and do.get("stumbles"):
        raise ConnectionError("the first time")
    if "put" in do:
        step.put_artifact(do["put"])
    if do.get("remove"):
        found = step.artifacts.get(step.loom_name, step.stage_name)
        step.remove_artifact(found.artifact_id, expected_revision=found.revision)
    if "create" in do:
        step.create_artifact(do["create"]["data"], artifact_id=do["create"]["id"])
    if "record" in do:
        step.append_record(do["record"], record_id=do["record"])
    step.update(index=step.state.index + 1, seen=seen)
    return "again" if step.state.index < len(step.input.do) else "done"
"""


def add_keeper(folder: Path, *, exclusive: bool = False) -> None:
    """Put the Loom where the service looks for Looms."""
    keeper = folder / "keeper"
    keeper.mkdir()
    keeper.joinpath("loom.yaml").write_text(LOOM.format(exclusive="exclusive: true\n" if exclusive else ""))
    keeper.joinpath("steps.py").write_text(STEPS)


def somebody(service: Service, place: str, *changes: Any) -> None:
    """Another Run lands ``changes`` at ``loom/stage``."""
    loom, stage = place.split("/")
    with transaction.atomic():
        landing = Landing(service.caller.project_id, loom, stage, uuid.uuid4(), clock.now())
        land_commits(landing, changes)


def creates(artifact_id: str, data: Any) -> CreateArtifact:
    return CreateArtifact(artifact_id, data)


def replaces(artifact_id: str, revision: int, data: Any) -> ReplaceArtifact:
    return ReplaceArtifact(artifact_id, revision, data)


def removes(artifact_id: str, revision: int) -> RemoveArtifact:
    return RemoveArtifact(artifact_id, revision)


def paused(service: Service, do: list[dict[str, Any]], *, steps: int = 1) -> dict[str, Any]:
    """A Run of the Loom, paused after ``steps`` Steps."""
    run_id = service.start("keeper", do=do)
    service.operate("pause_run", runId=run_id)
    for _ in range(steps):
        run = service.run(run_id)
        resumed = service.operate("resume_run", runId=run_id, expectedRevision=run["revision"], steps=1)
        assert "error" not in resumed, resumed
        service.work()
    run = service.run(run_id)
    assert (run["status"], run["boundary"]) == ("paused", steps), run
    return run


def resume(service: Service, run: dict[str, Any], **more: Any) -> dict[str, Any]:
    return service.operate("resume_run", runId=run["runId"], expectedRevision=run["revision"], **more)


def standing(service: Service, artifact_id: str) -> tuple[int, Any] | None:
    """Revision and data of an Artifact, if it stands."""
    found = service.call("get_artifact", artifactId=artifact_id)["artifact"]
    return None if found is None else (found["revision"], found["data"])
