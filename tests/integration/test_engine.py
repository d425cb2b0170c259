"""The engine over the real ledger, in one process: what a Run does from admission to its end."""

from __future__ import annotations

import datetime as dt
import shutil
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from django.db import connection

from apps.core import clock
from apps.core.database import database_time_after
from apps.ledger.models import Operation
from apps.results.models import ArtifactRevision
from apps.runs.models import Run
from apps.runs.services import worker
from apps.runs.services.executing import execute
from apps.runs.services.landing import SegmentResult, land
from apps.runs.services.sweeping import sweep
from tests.conftest import LOOMS, Service
from tests.integration.engine_work import attempts, lease, lines, work_and_close

pytestmark = pytest.mark.django_db(transaction=True)


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


@pytest.mark.rule("FR-A15", "F14")
def test_threads_that_lease_at_once_never_take_the_same_segment(service: Service, tmp_path: Path) -> None:
    effects = tmp_path / "effects"
    for _ in range(40):
        service.start(effects=str(effects))
    threads = [threading.Thread(target=work_and_close, args=(service,)) for _ in range(4)]
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
