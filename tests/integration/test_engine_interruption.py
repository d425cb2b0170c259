"""What becomes of Runs whose worker, service, credential or Release goes away (R4, R12, R14)."""

from __future__ import annotations

import datetime as dt
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from apps.access.models import Credential, Project
from apps.access.services.credentials import create_credential, revoke_credential
from apps.core import clock
from apps.core.caller import Source
from apps.core.database import database_time_after
from apps.ledger.models import Event, Operation
from apps.looms.services import releases
from apps.runs.models import Run, StepAttempt
from apps.runs.services.executing import execute
from apps.runs.services.landing import SegmentResult, land
from apps.runs.services.leasing import renew_leases, take_up
from apps.runs.services.sweeping import sweep
from tests.conftest import LOOMS, Service
from tests.integration.engine_work import attempts, lease

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.rule("R4", "R13")
def test_a_new_instance_interrupts_what_was_in_flight_and_keeps_what_rested(service: Service) -> None:
    waiting = service.finish(do=[{"ending": "ask"}, {"ending": "done"}])["runId"]
    ended = service.finish()["runId"]
    flying = service.start(do=[{"ending": "done"}])
    init = lease(service)
    step = land([SegmentResult(init, execute(init), keep=True)], now=clock.now())[0].next
    assert step is not None
    queued = service.start()
    paused = service.start()
    service.operate("pause_run", runId=paused)
    service.reopen()
    interrupted = service.run(flying)
    assert interrupted["status"] == "failed"
    assert interrupted["lastError"]["code"] == "RUN_INTERRUPTED"
    assert interrupted["historical"] is True, "failed by the opening: it ended with the instance before"
    assert attempts(interrupted) == [("act", "indeterminate", 1)]
    assert not land([SegmentResult(step, execute(step))], now=clock.now())[0].accepted
    assert service.run(ended)["historical"] is True
    assert [service.run(r)["status"] for r in (waiting, queued, paused)] == ["waiting", "queued", "paused"]
    for run_id in (ended, flying):
        assert service.operate("cancel_run", runId=run_id)["error"]["code"] == "CONFLICT"
        assert service.operate("pause_run", runId=run_id)["error"]["code"] == "CONFLICT"
    service.work()
    assert service.run(queued)["status"] == "completed"
    assert service.run(queued)["historical"] is False
    action = service.run(waiting)["pendingAction"]["id"]
    answer = [{"questionId": "q", "isSkipped": False, "answer": "yes"}]
    assert (
        service.operate("answer_ask", runId=waiting, actionId=action, answer=answer)["receipt"]["effect"] == "applied"
    )
    service.work()
    assert service.run(waiting)["status"] == "completed"


@pytest.mark.rule("R13", "R12")
def test_a_repeatable_step_is_begun_again_after_a_lost_worker_three_times_in_all(service: Service) -> None:
    run_id = service.start(do=[{"ending": "other"}, {"ending": "done"}])
    held = lease(service)
    while held.position.step != "rerunnable":
        following = land([SegmentResult(held, execute(held), keep=True)], now=clock.now())[0].next
        assert following is not None
        held = following
    for lost in (1, 2, 3):
        Run.objects.filter(pk=run_id).update(lease_expires_at=database_time_after(-1))
        assert sweep(now=clock.now()).interrupted == 1
        run = service.run(run_id)
        assert run["status"] == ("failed" if lost == 3 else "queued")
        if lost < 3:
            held = lease(service, owner=f"worker-{lost}")
            assert held.due.attempts == lost
    assert run["lastError"]["code"] == "RUN_INTERRUPTED"
    rows = StepAttempt.objects.filter(run_id=run_id, step="rerunnable").values_list("status", flat=True)
    assert list(rows) == ["indeterminate"] * 3


@pytest.mark.rule("R6", "R13")
def test_a_worker_takes_up_the_segment_after_its_own_and_only_while_its_lease_lasts(service: Service) -> None:
    run_id = service.start(do=[{"ending": "done"}])
    init = lease(service)
    assert take_up(init) is None, "its own segment has not landed"
    step = land([SegmentResult(init, execute(init), keep=True)], now=clock.now())[0].next
    assert step is not None
    assert take_up(init) == step
    assert take_up(step) is None, "it would be run twice"
    row = Run.objects.filter(pk=run_id)
    for passed_on in (
        {"lease_expires_at": database_time_after(-1)},
        {"fence": step.fence + 1},
        {"status": "queued"},
    ):
        before = row.values(*passed_on).get()
        row.update(**passed_on)
        assert take_up(init) is None, passed_on
        row.update(**before)
    assert take_up(init) == step


@pytest.mark.rule("R6", "F5")
def test_a_renewed_lease_is_kept_and_an_expired_one_is_not_brought_back(service: Service) -> None:
    run_id = service.start()
    lease(service, owner="alive")
    assert renew_leases(["somebody else"]) == 0
    assert renew_leases(["alive"]) == 1
    assert sweep(now=clock.now()).interrupted == 0
    Run.objects.filter(pk=run_id).update(lease_expires_at=database_time_after(-1))
    assert renew_leases(["alive"]) == 0


@pytest.mark.rule("R14")
def test_a_revoked_credential_pauses_its_run_and_resume_puts_it_under_another(service: Service) -> None:
    project = Project.objects.get()
    credential, _ = create_credential(project=project, source=Source.CLI, label="first", now=clock.now())
    service.caller = replace(service.caller, credential_id=credential.pk)
    run_id = service.start(do=[{"ending": "again"}])
    init = lease(service)
    revoke_credential(public_id=credential.public_id, now=clock.now())
    assert land([SegmentResult(init, execute(init), keep=True)], now=clock.now())[0].next is None
    service.work()
    paused = service.run(run_id)
    assert paused["status"] == "paused"
    assert paused["lastError"]["code"] == "FORBIDDEN"
    other, _ = create_credential(project=project, source=Source.CLI, label="second", now=clock.now())
    service.caller = replace(service.caller, credential_id=other.pk)
    resumed = service.operate("resume_run", runId=run_id, expectedRevision=paused["revision"])
    assert "lastError" not in resumed["run"]
    service.work()
    assert service.run(run_id)["status"] == "completed"
    assert Credential.objects.get(pk=other.pk).revoked_at is None


@pytest.mark.rule("R14")
def test_a_release_that_cannot_be_loaded_pauses_the_run(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    from apps.looms.models import Release, ReleaseFile

    run_id = service.start()
    kept = [(f.path, bytes(f.content)) for f in ReleaseFile.objects.filter(release__loom_name="trial")]
    digest = Release.objects.get(loom_name="trial").pk
    ReleaseFile.objects.filter(release_id=digest).delete()
    monkeypatch.setattr(releases, "_loaded", {})
    service.work()
    paused = service.run(run_id)
    assert (paused["status"], paused["lastError"]["code"]) == ("paused", "RELEASE_UNAVAILABLE")
    for path, content in kept:
        ReleaseFile.objects.create(release_id=digest, path=path, content=content)
    service.operate("resume_run", runId=run_id, expectedRevision=paused["revision"])
    service.work()
    assert service.run(run_id)["status"] == "completed"


@pytest.mark.rule("F23", "R14", "N8")
def test_a_changed_folder_is_a_new_release_and_a_run_keeps_the_one_it_began_with(
    service: Service, loom_paths: Path
) -> None:
    folder = loom_paths / "changing"
    shutil.copytree(LOOMS / "single", folder)
    text = (folder / "loom.yaml").read_text().replace("loom: single", "loom: changing").replace("exclusive: true\n", "")
    (folder / "loom.yaml").write_text(text)
    first = service.operate("run", loomName="changing", input=None)["run"]
    (folder / "steps.py").write_text((folder / "steps.py").read_text().replace('return "done"', 'return "other"'))
    (folder / "loom.yaml").write_text(text.replace("on: {done: end}", "on: {other: end}"))
    second = service.operate("run", loomName="changing", input=None)["run"]
    assert first["releaseDigest"] != second["releaseDigest"]
    service.work()
    assert [service.run(run["runId"])["outcome"] for run in (first, second)] == ["done", "other"]
    (folder / "loom.yaml").write_text("loom: changing\n")
    refused = service.operate("run", loomName="changing", input=None)
    assert refused["error"]["code"] == "RELEASE_UNAVAILABLE"
    assert refused["receipt"]["status"] == "rejected"
    listed = next(entry for entry in service.call("list_looms")["looms"] if entry["loomName"] == "changing")
    assert listed["status"] == "invalid"
    assert listed["releaseDigest"] == second["releaseDigest"]
    assert listed["diagnostics"]


@pytest.mark.rule("R17")
def test_retention_removes_old_historical_runs_and_nothing_else(service: Service, settings: Any) -> None:
    old = service.finish(do=[{"artifact": {"kept": True}, "record": "kept"}])["runId"]
    service.reopen()
    young = service.finish()["runId"]
    settings.LOOMSVC = replace(settings.LOOMSVC, retention_days=1)
    assert sweep(now=clock.now()).removed == 0
    later = clock.now() + dt.timedelta(days=2)
    assert sweep(now=later).removed == 1
    assert service.call("get_run", runId=old)["error"]["code"] == "NOT_FOUND"
    assert service.run(young)["status"] == "completed"
    assert service.call("get_record", recordId="kept")["record"]["runId"] == old
    assert service.call("get_artifact", loomName="trial", stageName="work")["artifact"]["runId"] == old
    assert Operation.objects.filter(kind="run").count() == 2
    assert not Event.objects.filter(run_id=old).exists()
    assert not StepAttempt.objects.filter(run_id=old).exists()
    operation = Operation.objects.get(run_id=old)
    found = service.call(
        "find_run", operationId=str(operation.operation_id), serviceInstanceId=str(operation.instance_id)
    )
    assert found == {"run": None}
