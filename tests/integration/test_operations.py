"""Operations: admitted once however often they are sent, with a receipt that never lies."""

from __future__ import annotations

import datetime as dt
import threading
import uuid
from typing import Any

import pytest
from django.db import connection

from apps.core import clock
from apps.core.database import database_time_after
from apps.core.failpoints import FailpointRaised
from apps.ledger.models import Operation
from apps.runs.models import Run
from apps.runs.services import executors
from apps.runs.services.sweeping import sweep
from tests.conftest import Service, caller_in

pytestmark = pytest.mark.django_db(transaction=True)


def identity(service: Service) -> dict[str, str]:
    return {"operationId": str(uuid.uuid4()), "serviceInstanceId": service.instance_id}


@pytest.mark.rule("O1", "O3", "O4", "FR-B11", "FR-C1")
def test_a_known_identity_gets_its_receipt_and_anything_different_is_a_conflict(service: Service) -> None:
    same = identity(service)
    first = service.call("run", **same, loomName="trial", input={})
    assert first["receipt"]["status"] == "accepted"
    assert first["receipt"]["effect"] == "applied"
    shouted = {**same, "operationId": same["operationId"].upper()}
    for _ in range(2):
        again = service.call("run", **shouted, loomName="trial", input={})
        assert again["receipt"] == first["receipt"]
    other_input = service.call("run", **same, loomName="trial", input={"do": []})
    other_kind = service.call("pause_run", **same, runId=first["run"]["runId"])
    elsewhere = service.call(
        "run",
        caller=_at_another_entry(service),
        **same,
        loomName="trial",
        input={},
    )
    for refused in (other_input, other_kind, elsewhere):
        assert refused["error"]["code"] == "CONFLICT"
        assert "receipt" not in refused
    assert Run.objects.count() == 1


def _at_another_entry(service: Service) -> Any:
    from dataclasses import replace

    return replace(service.caller, entry="/mcp")


@pytest.mark.rule("O3", "S2")
def test_defaults_are_part_of_the_parameters(service: Service) -> None:
    run_id = service.start()
    paused = service.operate("pause_run", runId=run_id)["run"]
    same = identity(service)
    arguments = {"runId": run_id, "expectedRevision": paused["revision"]}
    first = service.call("resume_run", **same, **arguments)
    again = service.call("resume_run", **same, **arguments, steps=None)
    assert again["receipt"] == first["receipt"]
    assert service.call("resume_run", **same, **arguments, steps=1)["error"]["code"] == "CONFLICT"


@pytest.mark.rule("F20", "FR-C3", "FR-C7", "O3")
def test_fifty_threads_send_one_operation_and_one_run_comes_of_it(service: Service) -> None:
    same = identity(service)
    barrier = threading.Barrier(50)
    results: list[dict[str, Any]] = []

    def send(plan: dict[str, Any]) -> None:
        barrier.wait()
        try:
            results.append(service.call("run", **same, loomName="trial", input=plan))
        finally:
            connection.close()

    threads = [threading.Thread(target=send, args=({},)) for _ in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 50
    assert {r["receipt"]["status"] for r in results} <= {"accepted", "pending"}
    assert Run.objects.count() == 1
    asked_again = [service.call("run", **same, loomName="trial", input={})["receipt"] for _ in range(50)]
    assert all(receipt == asked_again[0] for receipt in asked_again)
    assert asked_again[0]["status"] == "accepted"
    assert asked_again[0]["runId"] == str(Run.objects.get().pk)
    assert service.call("run", **same, loomName="single", input={})["error"]["code"] == "CONFLICT"


@pytest.mark.rule("O2")
def test_another_instance_is_refused_with_nothing_stored(service: Service) -> None:
    result = service.call(
        "run", operationId=str(uuid.uuid4()), serviceInstanceId=str(uuid.uuid4()), loomName="trial", input={}
    )
    assert result["error"]["code"] == "INSTANCE_CHANGED"
    assert result["error"]["details"]["currentServiceInstanceId"] == service.instance_id
    assert Operation.objects.count() == 0
    assert Run.objects.count() == 0


@pytest.mark.rule("O6", "R5")
def test_a_bad_input_stores_nothing_so_its_identity_can_be_used_corrected(service: Service) -> None:
    same = identity(service)
    refused = service.call("run", **same, loomName="trial", input={"do": [{"failures": "many"}]})
    assert refused["error"]["code"] == "INVALID_REQUEST"
    assert [i["path"] for i in refused["error"]["validation"]["issues"]] == ["/input/do/0/failures"]
    assert refused == service.call("run", **same, loomName="trial", input={"do": [{"failures": "many"}]})
    assert Operation.objects.count() == 0
    assert service.call("run", **same, loomName="trial", input={})["receipt"]["status"] == "accepted"


@pytest.mark.rule("O6", "N8")
def test_a_refusal_of_the_business_is_a_stored_receipt(service: Service) -> None:
    same = identity(service)
    refused = service.call("pause_run", **same, runId=str(uuid.uuid4()))
    assert refused["error"]["code"] == "NOT_FOUND"
    assert refused["receipt"]["status"] == "rejected"
    assert refused["receipt"]["error"] == refused["error"]
    assert "run" not in refused
    assert service.call("get_operation", **same) == {"status": "found", "receipt": refused["receipt"]}
    assert service.operate("run", loomName="nowhere", input={})["error"]["code"] == "NOT_FOUND"


@pytest.mark.rule("O5", "FR-C5")
def test_a_receipt_left_pending_was_never_applied_and_is_rejected(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOOMSVC_FAILPOINT", "after_receipt_insert:raise")
    same = identity(service)
    with pytest.raises(FailpointRaised):
        service.call("run", **same, loomName="trial", input={})
    monkeypatch.delenv("LOOMSVC_FAILPOINT")
    assert service.call("get_operation", **same)["receipt"]["status"] == "pending"
    assert sweep(now=clock.now()).settled == 0, "younger than thirty seconds: it may still be decided"
    Operation.objects.update(pending_until=database_time_after(-1))
    assert sweep(now=clock.now()).settled == 1
    result = service.call("run", **same, loomName="trial", input={})
    assert result["error"]["code"] == "UNAVAILABLE"
    assert result["error"]["retryable"] is True
    assert result["receipt"]["status"] == "rejected"
    assert Run.objects.count() == 0


@pytest.mark.rule("O5", "F11")
def test_an_effect_that_does_not_commit_leaves_nothing_but_a_pending_receipt(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOOMSVC_FAILPOINT", "before_commit:raise")
    same = identity(service)
    with pytest.raises(FailpointRaised):
        service.call("run", **same, loomName="trial", input={})
    assert Run.objects.count() == 0
    assert service.call("get_operation", **same)["receipt"]["status"] == "pending"


@pytest.mark.rule("O5")
def test_a_receipt_that_the_sweep_rejected_cannot_be_accepted_afterwards(service: Service) -> None:
    """The request's own process went on after the sweep had said that it was lost."""
    from apps.ledger.contracts import Identity
    from apps.ledger.domain.receipts import OperationKind
    from apps.ledger.services.operations import Applied, perform

    def overtaken() -> Applied:
        raise AssertionError("the effect must not be applied")

    def sweep_first() -> Any:
        Operation.objects.update(pending_until=database_time_after(-1))
        assert sweep(now=clock.now()).settled == 1

    class Overtaking(Identity):
        def parameters(self) -> dict[str, Any]:
            return {}

    from apps.ledger.services import operations

    reach = operations.reach
    operations.reach = lambda place: sweep_first()  # type: ignore[assignment]
    try:
        receipt = perform(
            caller=service.caller,
            kind=OperationKind.RUN,
            request=Overtaking(operation_id=str(uuid.uuid4()), service_instance_id=service.instance_id),
            effect=overtaken,
            now=clock.now(),
        )
    finally:
        operations.reach = reach
    assert receipt.status == "rejected"


@pytest.mark.rule("O7", "O8", "R13")
def test_after_a_restart_receipts_are_closed_and_runs_are_found(service: Service) -> None:
    same = identity(service)
    run_id = service.call("run", **same, loomName="trial", input={})["run"]["runId"]
    assert service.call("find_run", **same)["run"]["runId"] == run_id
    service.reopen()
    assert service.call("get_operation", **same) == {"status": "instance_changed"}
    assert service.call("find_run", **same)["run"]["runId"] == run_id
    assert service.call("run", **same, loomName="trial", input={})["error"]["code"] == "INSTANCE_CHANGED"
    assert service.call("find_run", **{**same, "operationId": str(uuid.uuid4())}) == {"run": None}
    assert service.call("get_operation", **identity(service)) == {"status": "not_found"}


@pytest.mark.rule("O9")
def test_the_run_in_a_result_is_its_present_view(service: Service) -> None:
    same = identity(service)
    service.call("run", **same, loomName="trial", input={})
    service.work()
    assert service.call("run", **same, loomName="trial", input={})["run"]["status"] == "completed"


@pytest.mark.rule("O10", "K25")
def test_every_write_keeps_who_did_it_from_where_and_what_it_changed(service: Service) -> None:
    run_id = service.start()
    service.operate("pause_run", runId=run_id)
    rows = list(Operation.objects.order_by("id").values_list("kind", "principal", "source", "entry"))
    assert rows == [
        ("run", "credential:test", "cli", "/internal/mcp"),
        ("pause_run", "credential:test", "cli", "/internal/mcp"),
    ]
    paused = Operation.objects.get(kind="pause_run")
    assert (paused.revision_before, paused.revision_after) == (1, 2)


@pytest.mark.rule("R8")
def test_an_exclusive_loom_has_one_open_run_in_a_project(service: Service) -> None:
    first = service.operate("run", loomName="single", input=None)["run"]["runId"]
    busy = service.operate("run", loomName="single", input=None)
    assert busy["error"]["code"] == "BUSY"
    assert busy["error"]["retryable"] is True
    assert busy["error"]["details"] == {"runId": first}
    assert busy["receipt"]["status"] == "rejected"
    service.work()
    assert service.operate("run", loomName="single", input=None)["receipt"]["status"] == "accepted"


@pytest.mark.rule("R8")
def test_twenty_threads_start_an_exclusive_loom_and_one_wins(service: Service) -> None:
    barrier = threading.Barrier(20)
    codes: list[str] = []

    def start() -> None:
        barrier.wait()
        try:
            result = service.operate("run", loomName="single", input=None)
            codes.append(result.get("error", {}).get("code", "accepted"))
        finally:
            connection.close()

    threads = [threading.Thread(target=start) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(codes) == ["BUSY"] * 19 + ["accepted"]


@pytest.mark.rule("R15")
def test_agent_steps_without_an_executor_are_refused_with_a_receipt_and_no_run(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executors, "_executors", {})
    refused = service.operate("run", loomName="agentic", input="x")
    assert refused["error"]["code"] == "UNAVAILABLE"
    assert "model" in refused["error"]["message"]
    assert refused["receipt"]["status"] == "rejected"
    assert Run.objects.count() == 0


@pytest.mark.rule("E5", "K10")
def test_another_projects_things_answer_as_if_they_never_existed(service: Service) -> None:
    from apps.access.services.projects import create_project

    run_id = service.start(do=[{"ending": "done", "artifact": {"a": 1}, "record": "r-1"}])
    service.work()
    artifact_id = service.run(run_id)["results"]["artifactIds"][0]
    stranger = caller_in(create_project(name="other", now=clock.now()))
    never = str(uuid.uuid4())

    def as_stranger(name: str, **arguments: Any) -> str:
        return str(service.call(name, caller=stranger, **arguments)).replace(never, "ID").replace(run_id, "ID")

    for name in ("get_run", "list_run_events", "list_run_attempts", "get_run_lineage"):
        assert as_stranger(name, runId=run_id) == as_stranger(name, runId=never)
    assert service.call("get_artifact", caller=stranger, artifactId=artifact_id) == {"artifact": None}
    assert service.call("get_record", caller=stranger, recordId="r-1") == {"record": None}
    assert service.call("list_runs", caller=stranger) == {"runs": []}
    assert service.call("list_artifacts", caller=stranger) == {"artifacts": {"data": []}}
    assert service.call("list_artifact_revisions", caller=stranger, artifactId=artifact_id) == {"revisions": []}
    for name in ("pause_run", "cancel_run"):
        same = identity(service)
        refused = service.call(name, caller=stranger, **same, runId=run_id)
        assert refused["error"] == {
            "code": "NOT_FOUND",
            "message": f"No Run {run_id} in this Project.",
            "retryable": False,
        }
        assert "runId" not in refused["receipt"]
        assert service.call("get_operation", **same) == {"status": "not_found"}, "receipts are a Project's own"
    assert service.run(run_id)["status"] == "completed"


@pytest.mark.rule("R3", "FR-E3", "FR-E1")
def test_pages_of_runs_neither_skip_nor_repeat_while_others_are_created(service: Service) -> None:
    present = [service.start() for _ in range(7)]
    Run.objects.update(created_at=dt.datetime(2026, 1, 1, tzinfo=dt.UTC))
    seen: list[str] = []
    page: dict[str, Any] = service.call("list_runs", limit=3)
    while True:
        seen += [run["runId"] for run in page["runs"]]
        service.start()
        if "nextCursor" not in page:
            break
        page = service.call("list_runs", limit=3, cursor=page["nextCursor"])
    assert seen == list(reversed(present))


@pytest.mark.rule("R3", "S2", "E3")
def test_a_cursor_goes_with_its_own_list_and_filters(service: Service) -> None:
    for _ in range(3):
        service.start()
    cursor = service.call("list_runs", limit=1)["nextCursor"]
    for arguments in ({"status": "queued"}, {"loomName": "trial"}):
        refused = service.call("list_runs", cursor=cursor, **arguments)["error"]
        assert refused["code"] == "INVALID_REQUEST"
        assert refused["validation"]["issues"][0]["path"] == "/cursor"
    for bad in ("%", "e30", "x" * 2048, "bnVsbA"):
        assert service.call("list_runs", cursor=bad)["error"]["code"] == "INVALID_REQUEST"
    assert service.call("list_artifacts", cursor=cursor)["error"]["code"] == "INVALID_REQUEST"


@pytest.mark.rule("R3", "R1")
def test_lists_leave_out_the_input_and_the_question(service: Service) -> None:
    service.finish(do=[{"ending": "ask"}])
    listed = service.call("list_runs")["runs"][0]
    assert "input" not in listed
    assert "request" not in listed["pendingAction"]
    assert listed["pendingAction"]["kind"] == "questions"
    assert service.run(listed["runId"])["pendingAction"]["request"][0]["id"] == "q"
