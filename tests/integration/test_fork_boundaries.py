"""What a Run holds at each boundary, and Runs that begin there."""

from __future__ import annotations

import importlib
import sqlite3
import uuid
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.db import connection, transaction
from django.forms import model_to_dict
from django.test.utils import CaptureQueriesContext

from apps.access.services.projects import create_project
from apps.core import clock, json_text
from apps.core.errors import LoomError
from apps.core.ids import new_id
from apps.ledger.models import Event
from apps.runs.domain.boundaries import HeldBoundary
from apps.runs.models import Run, StepAttempt
from apps.runs.selectors.boundaries import held_boundary
from apps.runs.services.restoring import ArtifactData, create_paused_run
from tests.conftest import Service, caller_in
from tests.integration.agent_work import waiting_agent
from tests.integration.diverging_runs import add_keeper, creates, somebody

pytestmark = pytest.mark.django_db(transaction=True)

PLAN: list[dict[str, Any]] = [
    {"ending": "again", "artifact": {"n": 1}},
    {"ending": "other", "record": "r-1"},
    {"ending": "ask"},
    {"ending": "leave", "artifact": {"n": 2}},
]


def started(service: Service) -> str:
    """A Run that has completed ``again`` and ``other`` and waits for an answer."""
    run_id = service.start(do=PLAN)
    service.work()
    assert service.run(run_id)["status"] == "waiting"
    return run_id


def restored(
    service: Service,
    run_id: str,
    boundary: int,
    *,
    artifacts: list[ArtifactData] | None = None,
    held: HeldBoundary | None = None,
) -> str:
    """A Run in the service's Project, as a Mirror of that boundary restores it."""
    held = held or held_boundary(uuid.UUID(run_id), boundary)
    with transaction.atomic():
        caller = service.caller
        made = create_paused_run(
            caller=caller,
            project_id=caller.project_id,
            held=held,
            mirror_id=uuid.uuid4(),
            origin=None,
            artifacts=artifacts or [],
            now=clock.now(),
        )
    return str(made)


@pytest.mark.rule("M1", "M9")
def test_a_boundary_holds_what_the_run_had_there(service: Service) -> None:
    run_id = started(service)
    key = uuid.UUID(run_id)
    begun, first, second = (held_boundary(key, boundary) for boundary in range(3))
    assert (begun.position.stage, begun.position.step, begun.outcome, begun.state) == ("work", "act", None, None)
    assert (dict(begun.visits), begun.dependencies, begun.event_seq) == ({"work/act": 1}, (), 1)
    assert (first.position.step, first.position.visit, first.outcome, first.result) == ("act", 1, "again", "again")
    assert first.state is not None and first.state.data["index"] == 1
    assert first.state.digest == json_text.digest(first.state.data)
    [artifact] = first.dependencies
    assert (artifact.loom_name, artifact.stage_name, artifact.revision) == ("trial", "work", 1)
    assert (artifact.digest, artifact.removed) == (json_text.digest({"n": 1}), False)
    assert (first.artifact_ids, first.record_ids) == ((artifact.artifact_id,), ())
    assert (second.position.visit, second.outcome, second.record_ids) == (2, "other", ("r-1",))
    assert dict(second.visits) == {"work/act": 2}
    for held in (first, second):
        [event] = Event.objects.filter(run_id=key, seq=held.event_seq)
        assert (event.type, event.data["boundary"]) == ("StepCompleted", held.boundary)


@pytest.mark.rule("M9", "E4")
def test_a_boundary_that_a_run_does_not_hold_is_a_conflict_that_says_which_it_holds(service: Service) -> None:
    run_id = uuid.UUID(started(service))
    with pytest.raises(LoomError, match="it holds boundaries 0 to 2") as refused:
        held_boundary(run_id, 3)
    assert refused.value.code == "CONFLICT"
    later = uuid.UUID(restored(service, str(run_id), 2))
    with pytest.raises(LoomError, match=r"it holds boundary 2\. Earlier ones are those of Run") as refused:
        held_boundary(later, 1)
    assert refused.value.code == "CONFLICT"
    for unknown in ({"run_id": uuid.uuid4()}, {"run_id": run_id, "project_id": uuid.uuid4()}):
        with pytest.raises(LoomError) as refused:
            held_boundary(boundary=0, **unknown)
        assert refused.value.code == "NOT_FOUND"


@pytest.mark.rule("M5", "M9", "R1")
@pytest.mark.parametrize("boundary", [0, 1, 2])
def test_a_restored_run_stands_paused_at_the_boundary_and_numbers_it_on(service: Service, boundary: int) -> None:
    run_id = started(service)
    source = service.run(run_id)
    made = restored(service, run_id, boundary)
    run = service.run(made)
    assert (run["traceId"], run["status"], run["boundary"], run["revision"]) == (run_id, "paused", boundary, 1)
    assert (run["origin"], run["input"]) == (None, source["input"])
    assert run["restoredFrom"]["runId"] == run_id and run["restoredFrom"]["boundary"] == boundary
    assert service.run(run_id) == source
    # It holds that boundary just as the other Run does.
    ours, theirs = held_boundary(uuid.UUID(made), boundary), held_boundary(uuid.UUID(run_id), boundary)
    for name in ("position", "outcome", "result", "visits", "dependencies", "artifact_ids", "record_ids"):
        assert getattr(ours, name) == getattr(theirs, name), name
    assert (ours.state and ours.state.digest) == (theirs.state and theirs.state.digest)
    events = service.call("list_run_events", runId=made)["events"]
    assert [(event["seq"], event["type"]) for event in events] == [(1, "RunRestored"), (2, "RunPaused")]


@pytest.mark.rule("M8")
def test_a_paused_run_keeps_what_it_depends_on_as_it_stands_at_the_pause(service: Service) -> None:
    run_id = service.start(do=[{"ending": "again", "artifact": {"n": 1}}, {"ending": "ask"}])
    service.operate("pause_run", runId=run_id)
    service.operate("resume_run", runId=run_id, expectedRevision=2, steps=1)
    service.work()
    kept = Run.objects.get(pk=run_id)
    assert kept.status == "paused" and kept.state is not None
    assert kept.dependencies["state"] == {"id": str(kept.state.pk), "digest": json_text.digest(kept.state.data)}
    [artifact] = kept.dependencies["artifacts"]
    assert (artifact["revision"], artifact["digest"]) == (1, json_text.digest({"n": 1}))
    service.operate("resume_run", runId=run_id, expectedRevision=kept.revision)
    assert Run.objects.get(pk=run_id).dependencies is None


@pytest.mark.rule("M9")
def test_reading_a_boundary_takes_a_constant_number_of_statements(service: Service) -> None:
    def statements(steps: int) -> int:
        run_id = service.start(do=[{"ending": "again", "artifact": {"n": n}} for n in range(steps)] + [{}])
        service.work()
        with CaptureQueriesContext(connection) as captured:
            held_boundary(uuid.UUID(run_id), steps)
        return len(captured)

    assert statements(1) == statements(4) <= 5


@pytest.mark.rule("M9")
def test_runs_from_before_boundaries_were_kept_get_them_from_the_ledger(service: Service, loom_paths: Path) -> None:
    add_keeper(loom_paths)
    somebody(service, "other/main", creates("a", 1))
    reading = service.finish("keeper", do=[{"read": [["other", "main"]]}, {"put": 1}, {"remove": True}])["runId"]
    agent = waiting_agent(service)
    agent.complete(outcome="written", text="by an agent")
    service.work()
    ended = [started(service), reading, agent.run_id]
    before = {key: [held_boundary(uuid.UUID(key), n) for n in range(1, 3)] for key in ended}
    for row in StepAttempt.objects.all():
        row.reads = [{k: v for k, v in read.items() if k not in ("loomName", "stageName")} for read in row.reads]
        row.result, row.event_seq, row.writes = None, None, []
        row.save()
    migration = importlib.import_module("apps.runs.migrations.0004_boundaries_of_older_runs")
    migration.fill(apps, None)
    for key, boundaries in before.items():
        for held in boundaries:
            assert held_boundary(uuid.UUID(key), held.boundary) == held
    assert before[agent.run_id][1].result["text"] == "by an agent"


@pytest.mark.rule("M9")
def test_so_many_older_runs_as_no_statement_may_name_get_their_boundaries(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = started(service)
    run, [*made] = Run.objects.get(pk=run_id), StepAttempt.objects.filter(run_id=run_id, boundary__isnull=False)[:1]
    keys = [new_id() for _ in range(90)]
    copied = model_to_dict(run, exclude=["id", "state", "pending_action", "project", "origin_operation_id"])
    Run.objects.bulk_create(
        Run(**{**copied, "id": key, "project_id": run.project_id, "trace_id": key, "created_at": run.created_at})
        for key in keys
    )
    attempts = [copy(made[0]) for _ in keys]
    for key, attempt in zip(keys, attempts, strict=True):
        attempt.pk, attempt.run_id, attempt.state_id, attempt.event_seq = None, key, None, None
    StepAttempt.objects.bulk_create(attempts)
    migration = importlib.import_module("apps.runs.migrations.0004_boundaries_of_older_runs")
    monkeypatch.setattr(migration, "RUNS", 40)
    if connection.vendor != "sqlite":
        migration.fill(apps, None)
        return
    before = connection.connection.setlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, 80)
    try:
        migration.fill(apps, None)
    finally:
        connection.connection.setlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, before)


@pytest.mark.rule("M5", "M8")
def test_a_restored_run_brings_back_what_its_project_never_had(service: Service) -> None:
    run_id = started(service)
    held = held_boundary(uuid.UUID(run_id), 2)
    [dependency] = held.dependencies
    elsewhere = replace(service, caller=caller_in(create_project(name="elsewhere", now=clock.now())))
    kept = [ArtifactData(dependency.artifact_id, dependency.digest, {"n": 1})]
    made = restored(elsewhere, run_id, 2, artifacts=kept)
    assert elsewhere.run(made)["project"] == "elsewhere"
    assert service.call("get_run", runId=made)["error"]["code"] == "NOT_FOUND"
    refused = elsewhere.operate("resume_run", runId=made, expectedRevision=1)
    [difference] = refused["error"]["details"]["differences"]
    assert (difference["change"], difference["now"], difference["restorable"]) == ("removed", {"removed": True}, True)
    # A fork of it can bring the same back.
    fork = elsewhere.operate("fork_run", runId=made, boundary=2)["run"]
    accepted = elsewhere.operate("resume_run", runId=fork["runId"], expectedRevision=1, scope="artifacts")
    assert accepted["receipt"]["status"] == "accepted", accepted
    there = elsewhere.call("get_artifact", artifactId=dependency.artifact_id)["artifact"]
    assert (there["revision"], there["data"], there["runId"]) == (1, {"n": 1}, fork["runId"])
    assert service.call("get_artifact", artifactId=dependency.artifact_id)["artifact"]["runId"] == run_id
    # Without the data nothing can be brought back, and it is said.
    bare = restored(replace(elsewhere, caller=caller_in(create_project(name="bare", now=clock.now()))), run_id, 2)
    row = Run.objects.select_related("project").get(pk=bare)
    nowhere = replace(service, caller=caller_in(row.project))
    refused = nowhere.operate("resume_run", runId=bare, expectedRevision=1, scope="artifacts")
    assert "its Mirror brought none" in refused["error"]["details"]["differences"][0]["because"]


@pytest.mark.rule("M7", "R14")
@pytest.mark.parametrize("boundary", [0, 2])
def test_a_restored_run_whose_release_is_not_to_be_had_is_not_resumed(service: Service, boundary: int) -> None:
    held = held_boundary(uuid.UUID(started(service)), boundary)
    made = restored(service, "", boundary, held=replace(held, release_digest="0" * 64))
    refused = service.operate("resume_run", runId=made, expectedRevision=1)
    assert refused["error"]["code"] == "RELEASE_UNAVAILABLE" and refused["receipt"]["status"] == "rejected"
    assert service.run(made)["status"] == "paused"
