"""Forking a Run on the real ledger: what the fork has, what it does, and what is refused."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from apps.core import clock
from apps.core.caller import Source
from apps.ledger.models import Operation
from apps.runs.models import Run, StepAttempt
from apps.runs.services.sweeping import remove_old_runs
from tests.conftest import Service
from tests.integration.agent_work import waiting_agent

pytestmark = pytest.mark.django_db(transaction=True)

PLAN: list[dict[str, Any]] = [
    {"ending": "again", "artifact": {"n": 1}},
    {"ending": "other", "record": "r-1"},
    {"ending": "leave"},
]


def fork(service: Service, run_id: str, boundary: int, **more: Any) -> dict[str, Any]:
    return service.operate("fork_run", runId=run_id, boundary=boundary, **more)


def resume(service: Service, run: dict[str, Any], **more: Any) -> dict[str, Any]:
    return service.operate("resume_run", runId=run["runId"], expectedRevision=run["revision"], **more)


def finished(service: Service, run_id: str) -> dict[str, Any]:
    service.work()
    return service.run(run_id)


@pytest.mark.rule("M9", "O1", "R1", "R10")
@pytest.mark.parametrize("boundary", range(5))
def test_a_fork_goes_on_from_its_boundary_as_its_source_did(service: Service, boundary: int) -> None:
    source = service.finish(do=PLAN)
    assert (source["status"], source["boundary"]) == ("completed", 4), source
    studio = replace(service.caller, source=Source.STUDIO, entry="/api/v1")
    result = fork(service, source["runId"], boundary, caller=studio)
    made = result["run"]
    assert result["receipt"]["status"] == "accepted" and result["receipt"]["runId"] == made["runId"]
    assert (made["status"], made["boundary"], made["traceId"]) == ("paused", boundary, source["traceId"])
    assert made["origin"] == {
        "operationId": result["receipt"]["operationId"],
        "serviceInstanceId": service.instance_id,
    }
    assert made["restoredFrom"] == {"mirrorId": None, "runId": source["runId"], "boundary": boundary}
    assert made["execution"] == {"source": "studio", "agentExecutor": "service_model"}
    assert service.run(source["runId"]) == source
    resumed = resume(service, made, abandonMirror=True)
    assert resumed["receipt"]["status"] == "accepted", resumed
    done = finished(service, made["runId"])
    assert (done["status"], done["outcome"], done["boundary"]) == ("completed", source["outcome"], 4)
    rows = StepAttempt.objects.filter(run_id=made["runId"]).order_by("step_seq")
    again = StepAttempt.objects.filter(run_id=source["runId"]).order_by("step_seq")
    columns = ("stage", "step", "visit", "kind", "outcome", "boundary", "state__data")
    left = list(again.values_list(*columns))
    assert list(rows.values_list(*columns)) == left[len(left) - len(rows) :]
    found = service.call("find_run", **made["origin"])
    assert found["run"]["runId"] == made["runId"]


@pytest.mark.rule("M9", "O3")
def test_each_operation_makes_one_fork(service: Service) -> None:
    run_id = service.finish(do=PLAN)["runId"]
    identity = {"operationId": str(uuid.uuid4())}
    first = fork(service, run_id, 1, **identity)
    assert fork(service, run_id, 1, **identity) == first
    assert fork(service, run_id, 2, **identity)["error"]["code"] == "CONFLICT"
    assert fork(service, run_id, 1)["run"]["runId"] != first["run"]["runId"]
    assert Run.objects.filter(trace_id=run_id).count() == 3


@pytest.mark.rule("M9", "R4")
def test_a_historical_run_may_be_forked(service: Service) -> None:
    source = service.finish(do=PLAN)
    service.reopen()
    assert service.run(source["runId"])["historical"]
    made = fork(service, source["runId"], 3)["run"]
    resumed = resume(service, made)
    assert resumed["receipt"]["status"] == "accepted", resumed
    assert finished(service, made["runId"])["outcome"] == source["outcome"]


@pytest.mark.rule("M9", "E4", "E5", "O6")
def test_what_cannot_be_forked_is_a_stored_refusal(service: Service) -> None:
    run_id = service.start(do=PLAN)
    too_far = fork(service, run_id, 1)
    assert (too_far["error"]["code"], too_far["receipt"]["status"]) == ("CONFLICT", "rejected")
    assert too_far["error"]["details"] == {"first": 0, "last": 0}
    assert too_far["run"]["runId"] == run_id
    unknown = fork(service, str(uuid.uuid4()), 0)
    assert (unknown["error"]["code"], unknown["receipt"]["status"]) == ("NOT_FOUND", "rejected")
    negative = fork(service, run_id, -1)
    assert negative["error"]["code"] == "INVALID_REQUEST" and "receipt" not in negative
    assert negative["error"]["validation"]["issues"][0]["path"] == "/boundary"
    huge = fork(service, run_id, 2**53 - 1)
    assert huge["error"]["code"] == "CONFLICT"
    assert Operation.objects.filter(kind="fork_run").exclude(status="rejected").count() == 0


@pytest.mark.rule("M9", "R8")
def test_an_exclusive_loom_has_one_open_run_forks_included(service: Service) -> None:
    source = service.operate("run", loomName="single", input=1)["run"]
    service.work()
    source = service.run(source["runId"])
    assert source["status"] == "completed", source
    first = fork(service, source["runId"], 0)
    assert first["receipt"]["status"] == "accepted", first
    second = fork(service, source["runId"], 0)
    assert (second["error"]["code"], second["error"]["retryable"]) == ("BUSY", True)
    assert second["error"]["details"] == {"runId": first["run"]["runId"]}
    service.operate("cancel_run", runId=first["run"]["runId"])
    assert fork(service, source["runId"], 0)["receipt"]["status"] == "accepted"


@pytest.mark.rule("M9")
def test_forks_of_forks_number_boundaries_on(service: Service) -> None:
    source = service.finish(do=PLAN)
    first = fork(service, source["runId"], 1)["run"]
    resume(service, first, steps=1)
    service.work()
    first = service.run(first["runId"])
    assert (first["status"], first["boundary"]) == ("paused", 2)
    assert fork(service, first["runId"], 0)["error"]["code"] == "CONFLICT"
    second = fork(service, first["runId"], 2)["run"]
    assert second["restoredFrom"]["runId"] == first["runId"]
    assert second["results"] == {
        "artifactIds": source["results"]["artifactIds"],
        "recordIds": source["results"]["recordIds"],
    }
    assert resume(service, second)["receipt"]["status"] == "accepted"
    assert finished(service, second["runId"])["boundary"] == 4
    pages = service.call("list_run_boundaries", runId=second["runId"], limit=1)
    shown = list(pages["boundaries"])
    while "nextCursor" in pages:
        pages = service.call("list_run_boundaries", runId=second["runId"], limit=1, cursor=pages["nextCursor"])
        shown += pages["boundaries"]
    assert [(one["boundary"], one["stage"], one["step"], one["outcome"]) for one in shown] == [
        (2, "work", "act", "other"),
        (3, "work", "rerunnable", "leave"),
        (4, "wrap", "close", "done"),
    ]


@pytest.mark.rule("M9")
def test_the_lineage_is_a_tree_in_two_statements(service: Service) -> None:
    source = service.finish(do=PLAN)["runId"]

    def lineage() -> list[tuple[str, str | None, int, int]]:
        found = service.call("get_run_lineage", runId=source)
        assert (found["traceId"], found["truncated"]) == (source, False)
        return [(one["runId"], one["parentRunId"], one["depth"], one["firstBoundary"]) for one in found["runs"]]

    with CaptureQueriesContext(connection) as captured:
        assert lineage() == [(source, None, 0, 0)]
    first = fork(service, source, 1)["run"]["runId"]
    second = fork(service, source, 2)["run"]["runId"]
    below = fork(service, first, 1)["run"]["runId"]
    with CaptureQueriesContext(connection) as again:
        tree = lineage()
    assert tree == [(source, None, 0, 0), (first, source, 1, 1), (below, first, 2, 1), (second, source, 1, 2)]
    assert len(captured) == len(again) == 2


@pytest.mark.rule("R17", "M9")
def test_a_fork_stands_without_its_source(service: Service, settings: Any) -> None:
    source = service.finish(do=PLAN)
    made = fork(service, source["runId"], 2)["run"]
    service.reopen()
    settings.LOOMSVC = replace(settings.LOOMSVC, retention_days=1e-9)
    assert remove_old_runs(now=clock.now()) == 1
    [root] = service.call("get_run_lineage", runId=made["runId"])["runs"]
    assert (root["runId"], root["parentRunId"], root["depth"]) == (made["runId"], None, 0)
    assert root["restoredFrom"]["runId"] == source["runId"]
    assert resume(service, made)["receipt"]["status"] == "accepted"
    assert finished(service, made["runId"])["status"] == "completed"
    # A fork that ended is removed like any other Run, with what it began with.
    service.reopen()
    assert remove_old_runs(now=clock.now()) == 1
    assert service.call("get_run", runId=made["runId"])["error"]["code"] == "NOT_FOUND"


ACTS = st.fixed_dictionaries(
    {
        "ending": st.sampled_from(["again", "again", "other", "ask", "confirm", "leave", "done"]),
        "failures": st.sampled_from([0, 0, 0, 1]),
        "artifact": st.sampled_from([None, {"n": 1}, {"n": 2}]),
    }
)
COLUMNS = ("stage", "step", "visit", "outcome", "boundary", "result", "state__data")


def ended(service: Service, run_id: str) -> dict[str, Any]:
    """The Run once it is over; whatever it asks is answered with yes."""
    service.work()
    while (run := service.run(run_id))["status"] == "waiting":
        pending = run["pendingAction"]
        answer: Any = {"isConfirmed": True}
        if pending["kind"] == "questions":
            answer = [{"questionId": "q", "isSkipped": False, "answer": "yes"}]
        service.operate("answer_ask", runId=run_id, actionId=pending["id"], answer=answer)
        service.work()
    return run


@pytest.mark.timeout(300)
@pytest.mark.rule("M9", "R10")
def test_a_fork_at_any_boundary_does_what_its_source_did_from_there(service: Service) -> None:
    @settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(plan=st.lists(ACTS, max_size=5), data=st.data())
    def check(plan: list[dict[str, Any]], data: st.DataObject) -> None:
        source = ended(service, service.start(do=plan))
        of_source = StepAttempt.objects.filter(run_id=source["runId"], boundary__isnull=False).order_by("boundary")
        boundary = data.draw(st.integers(0, source["boundary"]), label="boundary")
        made = fork(service, source["runId"], boundary)["run"]
        # Once more, from a boundary of the fork: as far as it comes back, it is the same again.
        for _ in range(2):
            assert resume(service, made, abandonMirror=True)["receipt"]["status"] == "accepted"
            done = ended(service, made["runId"])
            same = ("status", "outcome", "boundary", "cursor")
            assert {name: done.get(name) for name in same} == {name: source.get(name) for name in same}
            assert done.get("lastError", {}).get("code") == source.get("lastError", {}).get("code")
            of_fork = StepAttempt.objects.filter(run_id=made["runId"], boundary__isnull=False).order_by("boundary")
            assert list(of_fork.values_list(*COLUMNS)) == list(
                of_source.filter(boundary__gt=boundary).values_list(*COLUMNS)
            )
            boundary = data.draw(st.integers(boundary, done["boundary"]), label="boundary of the fork")
            made = fork(service, made["runId"], boundary)["run"]
        service.operate("cancel_run", runId=made["runId"])

    check()


@pytest.mark.rule("M9", "A8")
def test_a_fork_after_an_agents_step_reads_what_the_agent_said(service: Service) -> None:
    agent = waiting_agent(service)
    agent.tool("add", line="noted")
    agent.complete(outcome="written", text="said by the agent")
    service.work()
    source = agent.run()
    assert source["status"] == "completed", source
    made = fork(service, source["runId"], 2)["run"]
    assert resume(service, made, abandonMirror=True)["receipt"]["status"] == "accepted"
    done = finished(service, made["runId"])
    assert (done["status"], done["boundary"]) == ("completed", source["boundary"])
    revisions = service.call("list_artifact_revisions", artifactId=done["results"]["artifactIds"][0])["revisions"]
    assert [one["runId"] for one in revisions] == [made["runId"], source["runId"]]
    assert revisions[0]["data"] == revisions[1]["data"]
    assert revisions[0]["data"]["text"] == "said by the agent"


@pytest.mark.rule("M9")
def test_a_fork_takes_the_same_statements_however_long_its_source_is(service: Service) -> None:
    def statements(steps: int) -> int:
        plan = [{"ending": "again", "artifact": {"n": n}, "record": f"of {steps}, {n}"} for n in range(steps)]
        source = service.finish(do=plan)
        with CaptureQueriesContext(connection) as captured:
            result = fork(service, source["runId"], source["boundary"])
        assert result["receipt"]["status"] == "accepted", result
        return len(captured)

    assert statements(1) == statements(5)
