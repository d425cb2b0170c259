"""The engine over the real ledger, in one process: what a Run does from admission to its end."""

from __future__ import annotations

import datetime as dt
import shutil
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.db import connection

from apps.access.models import Credential, Project
from apps.access.services.credentials import create_credential, revoke_credential
from apps.core import clock
from apps.core.caller import Source
from apps.core.database import database_time_after
from apps.ledger.models import Event, Operation
from apps.looms.services import releases
from apps.results.models import ArtifactRevision, Record
from apps.runs.models import Run, State, StepAttempt
from apps.runs.services import worker
from apps.runs.services.executing import execute
from apps.runs.services.landing import SegmentResult, land
from apps.runs.services.leasing import Leased, renew_leases, take_lease
from apps.runs.services.sweeping import sweep
from tests.conftest import LOOMS, Service

pytestmark = pytest.mark.django_db(transaction=True)


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def lease(service: Service, owner: str = "worker") -> Leased:
    import uuid

    leased = take_lease(owner=owner, instance_id=uuid.UUID(service.instance_id), now=clock.now())
    assert leased is not None
    return leased


def attempts(run: dict[str, Any]) -> list[tuple[str, str, int]]:
    rows = StepAttempt.objects.filter(run_id=run["runId"], kind="step").order_by("step_seq")
    return list(rows.values_list("step", "status", "attempt"))


@pytest.mark.rule("R1", "R6", "R7", "R16")
def test_a_run_goes_through_its_steps_and_stages_to_its_outcome(service: Service) -> None:
    run = service.finish(do=[{"ending": "again"}, {"ending": "leave"}])
    assert run["status"] == "completed", run
    assert run["outcome"] == "done"
    assert run["cursor"] == {"stage": "wrap", "step": "close", "visit": 1}
    assert run["boundary"] == 3
    assert run["project"] == "trials"
    assert run["origin"]["serviceInstanceId"] == service.instance_id
    assert run["execution"] == {"source": "cli", "agentExecutor": "service_model"}
    assert run["createdAt"] <= run["startedAt"] <= run["finishedAt"]
    events = service.call("list_run_events", runId=run["runId"])["events"]
    assert [e["seq"] for e in events] == list(range(1, len(events) + 1))
    assert [e["type"] for e in events] == [
        "RunAdmitted", "RunDispatched", "StageInitialized", "StepCompleted", "StepCompleted", "StageInitialized",
        "StepCompleted", "RunCompleted",
    ]  # fmt: skip


@pytest.mark.rule("R6")
@pytest.mark.parametrize("steps", [2, 5])
def test_a_step_costs_one_commit_and_always_the_same_statements(service: Service, steps: int) -> None:
    from django.test.utils import CaptureQueriesContext

    service.start(do=[{"ending": "again"}] * (steps - 1))
    with CaptureQueriesContext(connection) as captured:
        service.work()
    statements = [query["sql"].split()[0].upper() for query in captured]
    commits = statements.count("COMMIT")
    # The lease, the initializer, each Step, and the look that finds nothing more.
    assert commits == 1 + 1 + steps + 1
    assert len(statements) == PER_RUN + PER_STEP * steps, statements


#: Statements of a Run without its Steps, and of one Step (lock, State, attempt, events, Run, BEGIN, COMMIT).
PER_RUN = 17
PER_STEP = 7


@pytest.mark.rule("R6", "S1", "S3", "S4")
def test_what_a_step_staged_lands_with_its_result(service: Service) -> None:
    run = service.finish(do=[{"ending": "again", "artifact": {"n": 1}, "record": "r-1"}, {"artifact": {"n": 2}}])
    assert run["results"]["recordIds"] == ["r-1"]
    (artifact_id,) = run["results"]["artifactIds"]
    found = service.call("get_artifact", artifactId=artifact_id)["artifact"]
    assert found == service.call("get_artifact", loomName="trial", stageName="work")["artifact"]
    assert (found["revision"], found["data"], found["runId"]) == (2, {"n": 2}, run["runId"])
    listed = service.call("list_artifacts")["artifacts"]["data"]
    assert listed == [{name: value for name, value in found.items() if name != "data"}]
    revisions = service.call("list_artifact_revisions", artifactId=artifact_id)["revisions"]
    assert [(r["revision"], r["data"]) for r in revisions] == [(2, {"n": 2}), (1, {"n": 1})]
    assert service.call("get_record", recordId="r-1")["record"]["data"] == {"index": 0}


@pytest.mark.rule("S1", "E4")
def test_an_artifact_is_asked_for_by_id_or_by_place_and_missing_ones_are_null(service: Service) -> None:
    assert service.call("get_artifact", artifactId="none") == {"artifact": None}
    assert service.call("get_artifact", loomName="trial", stageName="work") == {"artifact": None}
    assert service.call("get_record", recordId="none") == {"record": None}
    bad: list[dict[str, str]] = [
        {},
        {"loomName": "trial"},
        {"stageName": "work"},
        {"artifactId": "a", "loomName": "trial"},
        {"artifactId": "a", "loomName": "trial", "stageName": "work"},
    ]
    for arguments in bad:
        assert service.call("get_artifact", **arguments)["error"]["code"] == "INVALID_REQUEST"


@pytest.mark.rule("S2")
def test_artifacts_are_listed_by_id_in_pages(service: Service) -> None:
    service.finish(do=[{"ending": "leave", "artifact": 1}], close={"artifact": 2})
    everything = [a["artifactId"] for a in service.call("list_artifacts")["artifacts"]["data"]]
    assert everything == sorted(everything)
    first = service.call("list_artifacts", limit=1)["artifacts"]
    second = service.call("list_artifacts", limit=1, cursor=first["nextCursor"])["artifacts"]
    assert [a["artifactId"] for a in first["data"] + second["data"]] == everything
    assert "nextCursor" not in second
    only = service.call("list_artifacts", loomName="trial", stageName="wrap")["artifacts"]["data"]
    assert [a["stageName"] for a in only] == ["wrap"]


@pytest.mark.rule("S3")
def test_a_known_record_with_other_data_fails_the_step_and_the_same_changes_nothing(service: Service) -> None:
    assert service.finish(do=[{"record": "same"}])["status"] == "completed"
    assert service.finish(do=[{"record": "same"}])["status"] == "completed"
    failed = service.finish(do=[{"ending": "again"}, {"record": "same", "artifact": {"lost": True}}])
    assert failed["lastError"]["code"] == "STEP_FAILED"
    assert "RecordConflict" in failed["lastError"]["message"]
    assert Record.objects.count() == 1
    assert ArtifactRevision.objects.count() == 0, "nothing of a failed Step lands"


@pytest.mark.rule("S4", "R6")
def test_a_commit_at_a_revision_that_has_moved_on_fails_the_step_and_nothing_lands(service: Service) -> None:
    service.finish(do=[{"artifact": {"n": 1}}])
    run_id = service.start(do=[{"ending": "done", "artifact": {"n": 2}, "record": "late"}])
    init = lease(service)
    step = land([SegmentResult(init, execute(init), keep=True)], now=clock.now())[0].next
    assert step is not None
    output = execute(step)
    place = ArtifactRevision.objects.get().artifact
    ArtifactRevision.objects.create(
        artifact=place,
        revision=2,
        artifact_id_then=place.artifact_id,
        data="other",
        digest="",
        run_id=run_id,
        created_at=clock.now(),
    )
    place.revision = 2
    place.save()
    assert land([SegmentResult(step, output)], now=clock.now())[0].accepted
    failed = service.run(run_id)
    assert failed["lastError"]["code"] == "STEP_FAILED"
    assert "ArtifactConflict" in failed["lastError"]["message"]
    assert Record.objects.count() == 0
    assert ArtifactRevision.objects.count() == 2


@pytest.mark.rule("S4", "FR-G5")
def test_two_runs_that_create_at_one_place_at_once_both_end_and_revisions_only_grow(service: Service) -> None:
    ids = [service.start(do=[{"artifact": {"of": n}}]) for n in range(8)]
    threads = [threading.Thread(target=_work_and_close, args=(service,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    outcomes = [service.run(run_id) for run_id in ids]
    landed = [run for run in outcomes if run["status"] == "completed"]
    assert landed
    for run in outcomes:
        if run not in landed:
            assert "ArtifactConflict" in run["lastError"]["message"]
    numbers = sorted(ArtifactRevision.objects.values_list("revision", flat=True))
    assert numbers == list(range(1, len(landed) + 1))


def _work_and_close(service: Service) -> None:
    try:
        service.work()
    finally:
        connection.close()


@pytest.mark.rule("FR-A15", "F14")
def test_threads_that_lease_at_once_never_take_the_same_segment(service: Service, tmp_path: Path) -> None:
    effects = tmp_path / "effects"
    for _ in range(40):
        service.start(effects=str(effects))
    threads = [threading.Thread(target=_work_and_close, args=(service,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    done = [line.split()[0] for line in lines(effects)]
    assert len(done) == len(set(done)) == 40
    assert set(Run.objects.values_list("status", flat=True)) == {"completed"}


@pytest.mark.rule("R12")
def test_a_declared_exception_is_retried_and_others_are_not(service: Service, tmp_path: Path) -> None:
    effects = tmp_path / "effects"
    run = service.finish(do=[{"failures": 2}], effects=str(effects))
    assert run["status"] == "completed"
    assert attempts(run) == [("act", "failed", 1), ("act", "failed", 2), ("act", "completed", 3)]
    assert len(lines(effects)) == 3
    used_up = service.finish(do=[{"failures": 3}])
    assert used_up["lastError"] == {
        "code": "STEP_FAILED",
        "message": "ConnectionError: attempt 3 of act",
        "stage": "work",
        "step": "act",
        "attempt": 3,
    }
    other = service.finish(do=[{"failures": 1, "error": "ValueError"}])
    assert other["lastError"]["attempt"] == 1


@pytest.mark.rule("R6", "F3")
@pytest.mark.parametrize("error", ["SystemExit", "MemoryError"])
def test_code_that_tears_at_its_process_fails_its_own_run_only(service: Service, error: str) -> None:
    torn = service.start(do=[{"failures": 1, "error": error}])
    other = service.start()
    service.work()
    assert service.run(torn)["lastError"]["code"] == "STEP_FAILED"
    assert error in service.run(torn)["lastError"]["message"]
    assert service.run(other)["status"] == "completed"


@pytest.mark.rule("R12")
def test_a_step_past_its_timeout_fails_and_nothing_of_it_lands(service: Service) -> None:
    began = clock.now()
    run = service.finish(do=[{"ending": "leave"}], close={"seconds": 1.5, "artifact": {"late": True}})
    assert run["lastError"]["code"] == "STEP_TIMEOUT"
    assert clock.now() - began < dt.timedelta(seconds=1.5)
    assert worker.lost_threads() >= 1
    assert service.call("status")["service"]["counts"]["lostThreads"] == worker.lost_threads()
    threading.Event().wait(1.5)
    assert ArtifactRevision.objects.count() == 0
    assert service.run(run["runId"]) == run


@pytest.mark.rule("R12")
def test_the_sweep_ends_a_step_whose_worker_cannot(service: Service) -> None:
    run_id = service.start(do=[{"ending": "leave"}])
    held = lease(service)
    while held.position.step != "close" or held.due.kind.value != "step":
        following = land([SegmentResult(held, execute(held), keep=True)], now=clock.now())[0].next
        assert following is not None
        held = following
    assert sweep(now=clock.now()).timed_out == 0
    Run.objects.update(deadline_at=database_time_after(-1))
    assert sweep(now=clock.now()).timed_out == 1
    assert service.run(run_id)["lastError"]["code"] == "STEP_TIMEOUT"
    assert not land([SegmentResult(held, execute(held))], now=clock.now())[0].accepted


@pytest.mark.rule("R9", "R10", "FR-B19")
def test_a_pause_during_a_step_saves_its_result_and_resume_does_not_repeat_it(service: Service, tmp_path: Path) -> None:
    effects = tmp_path / "effects"
    run_id = service.start(do=[{"ending": "again"}], effects=str(effects))
    init = lease(service)
    step = land([SegmentResult(init, execute(init), keep=True)], now=clock.now())[0].next
    assert step is not None
    pausing = service.operate("pause_run", runId=run_id)["run"]
    assert (pausing["status"], pausing["pauseRequested"]) == ("running", True)
    land([SegmentResult(step, execute(step), keep=True)], now=clock.now())
    paused = service.run(run_id)
    assert (paused["status"], paused["pauseRequested"], paused["boundary"]) == ("paused", False, 1)
    service.work()
    assert service.run(run_id) == paused
    assert lines(effects) == [line for line in lines(effects) if "act/1 1" in line]
    resumed = service.operate("resume_run", runId=run_id, expectedRevision=paused["revision"])
    assert resumed["run"]["status"] == "queued"
    assert resumed["run"]["cursor"] == {"stage": "work", "step": "act", "visit": 2}
    service.work()
    assert service.run(run_id)["status"] == "completed"
    assert [line.split()[1] for line in lines(effects)] == ["act/1", "act/2"]


@pytest.mark.rule("R10")
def test_a_resume_that_routes_to_the_end_completes_at_once_without_a_worker(service: Service) -> None:
    run_id = service.start(do=[{"ending": "done"}])
    init = lease(service)
    step = land([SegmentResult(init, execute(init), keep=True)], now=clock.now())[0].next
    assert step is not None
    service.operate("pause_run", runId=run_id)
    land([SegmentResult(step, execute(step))], now=clock.now())
    revision = service.run(run_id)["revision"]
    done = service.operate("resume_run", runId=run_id, expectedRevision=revision)
    assert (done["run"]["status"], done["run"]["outcome"]) == ("completed", "done")


@pytest.mark.rule("R10")
def test_one_step_at_a_time(service: Service) -> None:
    run_id = service.start(do=[{"ending": "again"}, {"ending": "again"}])
    service.operate("pause_run", runId=run_id)
    for boundary in (1, 2):
        revision = service.run(run_id)["revision"]
        service.operate("resume_run", runId=run_id, expectedRevision=revision, steps=1)
        service.work()
        run = service.run(run_id)
        assert (run["status"], run["boundary"]) == ("paused", boundary)


@pytest.mark.rule("R11", "FR-B1", "FR-B3", "FR-A9", "FR-A7")
def test_a_cancel_is_immediate_and_a_late_result_changes_nothing(service: Service, tmp_path: Path) -> None:
    effects = tmp_path / "effects"
    run_id = service.start(do=[{"ending": "again", "artifact": {"n": 1}}], effects=str(effects))
    init = lease(service)
    step = land([SegmentResult(init, execute(init), keep=True)], now=clock.now())[0].next
    assert step is not None
    output = execute(step)
    cancelled = service.operate("cancel_run", runId=run_id)["run"]
    assert cancelled["status"] == "cancelled"
    assert not land([SegmentResult(step, output, keep=True)], now=clock.now())[0].accepted
    assert service.run(run_id) == cancelled
    assert ArtifactRevision.objects.count() == 0
    again = service.operate("cancel_run", runId=run_id)
    assert again["receipt"]["effect"] == "none"
    queued = [service.start(effects=str(effects)) for _ in range(10)]
    for other in queued:
        service.operate("cancel_run", runId=other)
    before = lines(effects)
    service.work()
    assert lines(effects) == before, "a cancelled Run never starts"


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


@pytest.mark.rule("H1", "H2", "H3", "H6", "R2")
def test_questions_and_confirmations_wait_without_a_worker_and_go_on_with_the_answer(service: Service) -> None:
    run_id = service.finish(do=[{"ending": "ask", "only_person": True}, {"ending": "again"}, {"ending": "confirm"}])[
        "runId"
    ]
    action = service.run(run_id)["pendingAction"]
    assert action["kind"] == "questions"
    assert action["onlyPerson"] is True
    wrong = service.operate("answer_ask", runId=run_id, actionId=action["id"], answer=[{"questionId": "x"}])
    assert wrong["error"]["code"] == "INVALID_REQUEST"
    assert {i["path"] for i in wrong["error"]["validation"]["issues"]} >= {"/answer/0/questionId", "/answer"}
    answer = [{"questionId": "q", "isSkipped": False, "answer": " as given "}]
    agent = replace(service.caller, source=Source.AGENT_IDE, entry="/mcp")
    identity = {"operationId": "0198c1f2-7c7e-7000-8000-000000000000", "serviceInstanceId": service.instance_id}
    forbidden = service.call("answer_ask", caller=agent, **identity, runId=run_id, actionId=action["id"], answer=answer)
    assert forbidden["error"]["code"] == "FORBIDDEN"
    assert Operation.objects.filter(kind="answer_ask").count() == 0
    service.operate("answer_ask", runId=run_id, actionId=action["id"], answer=answer)
    late = service.operate("answer_ask", runId=run_id, actionId=action["id"], answer=answer)
    assert late["error"]["code"] == "CONFLICT"
    service.work()
    confirmation = service.run(run_id)["pendingAction"]
    assert confirmation["kind"] == "confirmation"
    assert confirmation["request"] == {"context": "Go **on**?"}
    service.operate("answer_ask", runId=run_id, actionId=confirmation["id"], answer={"isConfirmed": False})
    service.work()
    assert service.run(run_id)["status"] == "completed"
    trail = State.objects.order_by("-id").first()
    assert trail is not None
    assert trail.data["trail"] == ["act:ask", "answered: as given ", "act:confirm", "confirmed:False"]
    answered = Event.objects.filter(type="ActionAnswered").order_by("id").first()
    assert answered is not None
    assert answered.data["answeredBy"] == {"principal": "credential:test", "source": "cli", "via": "cli"}


@pytest.mark.rule("FR-A1", "FR-A11")
def test_a_sleep_is_a_due_time_in_the_ledger_and_fires_once(service: Service, tmp_path: Path) -> None:
    effects = tmp_path / "effects"
    run_id = service.start(do=[{"ending": "sleep"}, {"ending": "done"}], effects=str(effects))
    service.work()
    # Whatever zone it was said in, the ledger keeps the instant; at a clock change it exists once.
    twice = dt.datetime(2026, 10, 25, 2, 30, tzinfo=ZoneInfo("Europe/Paris"))
    Run.objects.filter(pk=run_id, status="queued").update(due_at=twice)
    sweep(now=clock.now())
    sweep(now=clock.now())
    service.work()
    service.work()
    run = service.run(run_id)
    assert run["status"] == "completed"
    assert len(lines(effects)) == 2
    ended = StepAttempt.objects.filter(run_id=run_id).values_list("started_at", "ended_at")
    assert all(start <= end for start, end in ended)


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


@pytest.mark.rule("N8")
def test_status_says_who_one_is_and_what_is_open(service: Service) -> None:
    service.start()
    said = service.call("status")["service"]
    assert said["instanceId"] == service.instance_id
    assert (said["project"], said["source"], said["agentExecutor"]) == ("trials", "cli", "service_model")
    assert said["counts"]["queued"] == 1
    assert said["ready"] is True
    assert "notReadyBecause" not in said
    looms = {entry["loomName"]: entry for entry in service.call("list_looms")["looms"]}
    assert {"trial", "single", "agentic", "capture", "inventory"} <= set(looms)
    assert looms["trial"]["status"] == "ready"
    assert looms["trial"]["inputSchema"]["type"] == "object"


@pytest.mark.rule("FR-D25", "R5")
def test_numbers_keep_their_digest_and_their_form_on_every_database(service: Service, loom_paths: Path) -> None:
    given = {"a": 1e22, "b": -0.0, "zz": 1, "y": 2, "long": 0.2345678901234568}
    same = {"operationId": "0198c1f2-7c7e-7000-8000-000000000001", "serviceInstanceId": service.instance_id}
    run = service.call("run", **same, loomName="single", input=given)["run"]
    stored = service.run(run["runId"])["input"]
    assert list(stored) == list(given)
    assert str(stored) == str(given)
    digest = Operation.objects.get().parameters_digest
    assert digest == "7e7f653a250ecae53b5059fc3c40f34f966d03e4ff5d32791688c55b22dd34a7"


@pytest.mark.rule("R5", "K23")
@pytest.mark.parametrize("blank", ["", "  \n\t"])
def test_a_loom_without_a_model_takes_any_json_but_blank_text(service: Service, blank: str) -> None:
    refused = service.operate("run", loomName="single", input=blank)
    assert refused["error"]["code"] == "INVALID_REQUEST"
    assert refused["error"]["validation"]["issues"][0]["path"] == "/input"
    for given in (None, 0, False, [], {}, "x"):
        run = service.operate("run", loomName="single", input=given)["run"]
        assert run["input"] == given
        service.work()


@pytest.mark.rule("R6")
def test_an_async_step_reads_the_ledger_like_any_other(service: Service, loom_paths: Path) -> None:
    folder = loom_paths / "waiter"
    shutil.copytree(LOOMS / "single", folder)
    (folder / "loom.yaml").write_text((folder / "loom.yaml").read_text().replace("loom: single", "loom: waiter"))
    (folder / "steps.py").write_text(
        (folder / "steps.py")
        .read_text()
        .replace("def pass_through", "async def pass_through")
        .replace(
            '    return "done"',
            """    assert not step.cancelled()
    assert step.artifacts.get("waiter", "only") is None
    assert step.artifacts.get_by_id("none") is None
    assert step.records.get("none") is None
    assert step.records.latest("waiter", "only") is None
    step.put_artifact({"by": "async"})
    return "done\"""",
        )
    )
    run = service.finish("waiter")
    assert run["status"] == "completed", run
    assert service.call("get_artifact", loomName="waiter", stageName="only")["artifact"]["data"] == {"by": "async"}


class Recording:
    """An executor that takes every call and carries out none."""

    def __init__(self) -> None:
        self.opened: list[tuple[str, int]] = []

    def not_ready_because(self, project_id: Any, graph: Any) -> str | None:
        return None

    def open_call(self, leased: Leased, *, now: dt.datetime) -> None:
        self.opened.append((str(leased.run_id), leased.fence))

    def cancel_call(self, run_id: Any, *, now: dt.datetime) -> list[Any]:
        return []


@pytest.mark.rule("R15")
def test_an_agent_step_that_is_due_goes_to_the_runs_executor_under_its_fence(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    from apps.core.caller import AgentExecutor
    from apps.runs.services import executors

    executor = Recording()
    monkeypatch.setattr(executors, "_executors", {AgentExecutor.SERVICE_MODEL: executor})
    assert service.call("status")["service"]["ready"] is True
    run_id = service.operate("run", loomName="agentic", input="x")["run"]["runId"]
    service.work()
    assert executor.opened == [(run_id, Run.objects.get(pk=run_id).fence)]
    assert service.run(run_id)["status"] == "running"


@pytest.mark.rule("R14", "R15")
def test_an_agent_step_whose_executor_went_away_pauses_the_run(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    from apps.core.caller import AgentExecutor
    from apps.runs.services import executors

    monkeypatch.setattr(executors, "_executors", {AgentExecutor.SERVICE_MODEL: Recording()})
    run_id = service.operate("run", loomName="agentic", input="x")["run"]["runId"]
    monkeypatch.setattr(executors, "_executors", {})
    service.work()
    paused = service.run(run_id)
    assert (paused["status"], paused["lastError"]["code"]) == ("paused", "MODEL_REQUEST_FAILED")


@pytest.mark.rule("R6", "F2", "F11")
def test_a_result_lands_once_and_only_under_the_fence_it_was_leased_with(service: Service) -> None:
    run_id = service.start(do=[{"ending": "again"}, {"ending": "again"}])
    init = lease(service)
    step = land([SegmentResult(init, execute(init), keep=True)], now=clock.now())[0].next
    assert step is not None
    result = SegmentResult(step, execute(step), keep=True)
    assert land([result], now=clock.now())[0].accepted
    landed = service.run(run_id)
    assert landed["status"] == "running", "the lease is kept and the fence is the same"
    assert not land([result], now=clock.now())[0].accepted, "the step sequence has moved"
    assert service.run(run_id) == landed
    following = replace(step, step_seq=step.step_seq + 1, position=replace(step.position, visit=2))
    Run.objects.filter(pk=run_id).update(fence=step.fence + 1)
    assert not land([SegmentResult(following, execute(following))], now=clock.now())[0].accepted
    assert service.run(run_id) == landed


@pytest.mark.rule("R7", "R9")
def test_an_outcome_that_is_not_routed_fails_the_run_although_a_pause_was_asked_for(service: Service) -> None:
    run_id = service.start(do=[{"ending": "nowhere"}])
    init = lease(service)
    step = land([SegmentResult(init, execute(init), keep=True)], now=clock.now())[0].next
    assert step is not None
    service.operate("pause_run", runId=run_id)
    land([SegmentResult(step, execute(step))], now=clock.now())
    failed = service.run(run_id)
    assert (failed["status"], failed["lastError"]["code"]) == ("failed", "STEP_OUTCOME_NOT_HANDLED")
    assert failed["pauseRequested"] is False
