"""What Code files lands with its Step, or not at all (S1–S4, R6)."""

from __future__ import annotations

import threading

import pytest

from apps.core import clock
from apps.results.models import ArtifactRevision, Record
from apps.runs.services.executing import execute
from apps.runs.services.landing import SegmentResult, land
from tests.conftest import Service
from tests.integration.engine_work import lease, work_and_close

pytestmark = pytest.mark.django_db(transaction=True)


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
    threads = [threading.Thread(target=work_and_close, args=(service,)) for _ in range(4)]
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
