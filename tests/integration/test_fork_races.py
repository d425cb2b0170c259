"""Forks and resumes that meet others at the same Run, Artifact or Loom; and processes that die in between."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from apps.core import clock
from apps.core.database import database_time_after
from apps.core.failpoints import FailpointRaised
from apps.ledger.models import Event, Operation
from apps.results.models import ArtifactRevision
from apps.runs.models import Run, StartingBoundary, State
from apps.runs.services.sweeping import sweep
from tests.chances import chance, rounds
from tests.conftest import Service
from tests.integration.attacking import deadlocks as deadlocks_seen
from tests.integration.attacking import meet
from tests.integration.diverging_runs import add_keeper, creates, paused, replaces, resume, somebody, standing

ROUNDS = rounds(3)

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(60 + 5 * ROUNDS)]

THEN = {"n": 0}


def deadlocks() -> int:
    """Which PostgreSQL had to end; SQLite has one writer."""
    return deadlocks_seen() if connection.vendor == "postgresql" else 0


def codes(answers: list[Any]) -> list[str | None]:
    return [answer.get("error", {}).get("code") if isinstance(answer, dict) else None for answer in answers]


def fork(service: Service, run_id: str, boundary: int, **more: Any) -> dict[str, Any]:
    return service.operate("fork_run", runId=run_id, boundary=boundary, **more)


@pytest.fixture
def keeper(service: Service, loom_paths: Path) -> Service:
    add_keeper(loom_paths)
    somebody(service, "other/main", creates("a", THEN))
    return service


@pytest.mark.rule("M9", "R11", "F13", "F21")
def test_a_fork_and_a_cancel_of_its_source_both_hold(keeper: Service) -> None:
    moments, before = chance("fork/cancel"), deadlocks()
    for _ in range(ROUNDS):
        run = paused(keeper, [{"put": 1}, {}])
        answers = meet(
            moments,
            lambda run=run: fork(keeper, run["runId"], 1),
            lambda run=run: keeper.operate("cancel_run", runId=run["runId"]),
        )
        assert codes(answers) == [None, None], answers
        made = answers[0]["run"]
        assert (made["status"], made["boundary"]) == ("paused", 1)
        assert keeper.run(run["runId"])["status"] == "cancelled"
        assert keeper.run(made["runId"])["status"] == "paused"
    assert deadlocks() == before


@pytest.mark.rule("M9", "R8", "F13", "F21")
def test_of_forks_of_an_exclusive_loom_that_meet_one_is_made(service: Service, loom_paths: Path) -> None:
    add_keeper(loom_paths, exclusive=True)
    moments, before = chance("fork/fork"), deadlocks()
    source = service.finish("keeper", do=[{"put": 1}])["runId"]
    for _ in range(ROUNDS):
        bodies = [lambda: fork(service, source, 1) for _ in range(3)]
        answers = meet(moments, *bodies, lambda: service.operate("run", loomName="keeper", input={"do": []}))
        assert sorted(map(str, codes(answers))) == ["BUSY", "BUSY", "BUSY", "None"]
        [made] = [answer["run"] for answer in answers if "error" not in answer]
        assert all(a["error"]["details"] == {"runId": made["runId"]} for a in answers if "error" in a)
        service.operate("cancel_run", runId=made["runId"])
    assert deadlocks() == before


@pytest.mark.rule("M9", "O3", "F20")
def test_one_fork_comes_of_one_operation_however_many_send_it(keeper: Service) -> None:
    source = keeper.finish("keeper", do=[{"put": 1}, {}])["runId"]
    identity = {"operationId": str(uuid.uuid4())}
    answers = meet(chance("same"), *[lambda: fork(keeper, source, 1, **identity) for _ in range(8)])
    assert Run.objects.filter(trace_id=source).count() == 2
    decided = [answer["receipt"] for answer in answers if answer["receipt"]["status"] != "pending"]
    assert all(receipt == decided[0] for receipt in decided)


@pytest.mark.rule("M8", "F13", "F21")
def test_a_resume_and_a_replacement_that_meet_come_one_after_the_other(keeper: Service) -> None:
    moments, before = chance("resume/replace"), deadlocks()
    revision = 1
    for number in range(1, ROUNDS + 1):
        run = paused(keeper, [{"read": [["other", "main"]]}, {}])
        now = standing(keeper, "a")
        assert now is not None
        answers = meet(
            moments,
            lambda run=run: resume(keeper, run),
            lambda revision=revision, number=number: somebody(
                keeper, "other/main", replaces("a", revision, {"n": number})
            ),
        )
        assert codes(answers)[0] in (None, "MIRROR_DIVERGED"), answers
        assert standing(keeper, "a") == (revision + 1, {"n": number})
        assert keeper.run(run["runId"])["status"] == ("queued" if codes(answers)[0] is None else "paused")
        keeper.operate("cancel_run", runId=run["runId"])
        revision += 1
    assert deadlocks() == before


@pytest.mark.rule("M8", "F13", "F21")
def test_runs_that_bring_the_same_artifacts_back_at_once_do_it_in_one_order(keeper: Service) -> None:
    moments, before = chance("resume/resume"), deadlocks()
    places = [["other", "main"], ["third", "main"], ["fourth", "main"]]
    somebody(keeper, "third/main", creates("b", THEN))
    somebody(keeper, "fourth/main", creates("c", THEN))
    reads = [places, places[::-1], places[1:] + places[:1]]
    runs = [paused(keeper, [{"read": read}, {}]) for read in reads]
    for place, artifact_id in (("other", "a"), ("third", "b"), ("fourth", "c")):
        somebody(keeper, f"{place}/main", replaces(artifact_id, 1, "meanwhile"))
    answers = meet(moments, *[lambda run=run: resume(keeper, run, scope="artifacts") for run in runs])
    assert codes(answers) == [None, None, None], answers
    # Whoever came first brought them back; for the others nothing differed.
    assert all(standing(keeper, artifact_id) == (3, THEN) for artifact_id in "abc")
    assert deadlocks() == before


@pytest.mark.rule("M8", "M9", "O5", "F11")
@pytest.mark.parametrize("place", ["after_receipt_insert", "before_commit"])
@pytest.mark.parametrize("name", ["fork", "resume"])
def test_what_dies_before_its_commit_has_done_nothing(
    keeper: Service, monkeypatch: pytest.MonkeyPatch, place: str, name: str
) -> None:
    run = paused(keeper, [{"read": [["other", "main"]]}, {}])
    somebody(keeper, "other/main", replaces("a", 1, "meanwhile"))
    tables = (Run, State, StartingBoundary, ArtifactRevision, Event)
    before = [list(table.objects.order_by("pk").values()) for table in tables]
    identity = {"operationId": str(uuid.uuid4())}

    def act() -> dict[str, Any]:
        if name == "fork":
            return fork(keeper, run["runId"], 1, **identity)
        return resume(keeper, run, scope="artifacts", **identity)

    monkeypatch.setenv("LOOMSVC_FAILPOINT", f"{place}:raise")
    with pytest.raises(FailpointRaised):
        act()
    monkeypatch.delenv("LOOMSVC_FAILPOINT")
    assert [list(table.objects.order_by("pk").values()) for table in tables] == before
    Operation.objects.filter(status="pending").update(pending_until=database_time_after(-1))
    assert sweep(now=clock.now()).settled == 1
    assert act()["error"]["code"] == "UNAVAILABLE", "never applied, and not applied any more"
    identity["operationId"] = str(uuid.uuid4())
    assert act()["receipt"]["status"] == "accepted"
