"""Resuming after others have changed what a paused Run depends on: told, brought back, or let be (M8)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.core import clock, json_text
from apps.runs.models import Run, State
from apps.runs.services.executing import execute
from apps.runs.services.landing import SegmentResult, land
from apps.runs.services.leasing import forbid
from tests.conftest import Service
from tests.integration.attacking import lease
from tests.integration.diverging_runs import (
    add_keeper,
    creates,
    paused,
    removes,
    replaces,
    resume,
    somebody,
    standing,
)

pytestmark = pytest.mark.django_db(transaction=True)

READS = [{"read": [["other", "main"]]}, {"read": [["other", "main"]]}]
THEN = {"title": "as it was", "n": 1}


@pytest.fixture
def keeper(service: Service, loom_paths: Path) -> Service:
    add_keeper(loom_paths)
    somebody(service, "other/main", creates("a", THEN))
    return service


def differences(result: dict[str, Any]) -> list[dict[str, Any]]:
    assert result["error"]["code"] == "MIRROR_DIVERGED", result
    assert result["receipt"]["status"] == "rejected" and not result["error"]["retryable"]
    found: list[dict[str, Any]] = result["error"]["details"]["differences"]
    return found


def seen(service: Service, run: dict[str, Any]) -> list[Any]:
    """What the Run's Steps have read, once it is over."""
    service.work()
    assert service.run(run["runId"])["status"] == "completed"
    row = Run.objects.select_related("state").get(pk=run["runId"])
    assert row.state is not None
    return list(row.state.data["seen"])


@pytest.mark.rule("M8", "R10")
def test_another_run_replaced_what_the_paused_run_read_and_each_way_on_works(keeper: Service) -> None:
    runs = [paused(keeper, READS) for _ in range(3)]
    somebody(keeper, "other/main", replaces("a", 1, {**THEN, "n": 2}))
    refused = resume(keeper, runs[0])
    [difference] = differences(refused)
    digest = json_text.digest
    assert difference.pop("now").items() >= {"revision": 2, "digest": digest({**THEN, "n": 2})}.items()
    assert difference == {
        "kind": "artifact",
        "artifactId": "a",
        "loomName": "other",
        "stageName": "main",
        "change": "changed",
        "then": {"revision": 1, "digest": digest(THEN)},
        "patch": [{"op": "replace", "path": "/n", "value": 2}],
        "size": {"then": 27, "now": 27},
        "restorable": True,
    }
    message = refused["error"]["message"]
    assert "Artifact a at other/main was at revision 1 and holds other data (revision 2 now)" in message
    ways = [way["with"] for way in refused["error"]["details"]["ways"]]
    assert ways == [{"scope": "artifacts"}, {"abandonMirror": True}, {}]
    assert keeper.run(runs[0]["runId"]) == runs[0], "nothing happened to it"
    # Going on with what is there.
    assert resume(keeper, runs[0], abandonMirror=True)["receipt"]["status"] == "accepted"
    assert seen(keeper, runs[0]) == [THEN, {**THEN, "n": 2}]
    # Bringing it back.
    assert resume(keeper, runs[1], scope="artifacts")["receipt"]["status"] == "accepted"
    assert standing(keeper, "a") == (3, THEN)
    assert seen(keeper, runs[1]) == [THEN, THEN]
    # Having put it right oneself: what was brought back is what the third Run depends on too.
    assert resume(keeper, runs[2])["receipt"]["status"] == "accepted"
    told = [keeper.call("list_run_events", runId=run["runId"])["events"] for run in runs]
    last = [[event["data"] for event in events if event["type"] == "RunResumed"][-1] for events in told]
    assert last == [{"abandoned": ["a"]}, {"restored": [{"artifactId": "a", "revision": 3}]}, {}]


@pytest.mark.rule("M8")
def test_what_was_replaced_twice_and_put_back_is_no_difference(keeper: Service) -> None:
    run = paused(keeper, READS)
    somebody(keeper, "other/main", replaces("a", 1, {"n": 2}))
    somebody(keeper, "other/main", replaces("a", 2, THEN))
    assert resume(keeper, run)["receipt"]["status"] == "accepted"
    assert standing(keeper, "a") == (3, THEN)


@pytest.mark.rule("M8", "S4")
def test_what_was_removed_stands_again_with_its_id(keeper: Service) -> None:
    run = paused(keeper, READS)
    somebody(keeper, "other/main", removes("a", 1))
    [difference] = differences(resume(keeper, run))
    assert (difference["change"], difference["restorable"]) == ("removed", True)
    assert difference["now"].items() >= {"removed": True, "revision": 2}.items()
    assert resume(keeper, run, scope="all")["receipt"]["status"] == "accepted"
    assert standing(keeper, "a") == (3, THEN)


@pytest.mark.rule("M8", "S4")
def test_a_place_that_another_artifact_took_is_given_back_and_every_revision_is_kept(keeper: Service) -> None:
    run = paused(keeper, READS)
    somebody(keeper, "other/main", removes("a", 1))
    somebody(keeper, "other/main", creates("b", "taken"))
    refused = resume(keeper, run)
    [difference] = differences(refused)
    assert (difference["change"], difference["now"]["artifactId"]) == ("replaced", "b")
    assert "Artifact b stands in its place" in refused["error"]["message"]
    assert resume(keeper, run, scope="artifacts")["receipt"]["status"] == "accepted"
    assert (standing(keeper, "a"), standing(keeper, "b")) == ((5, THEN), None)
    kept = keeper.call("list_artifact_revisions", artifactId="b")["revisions"]
    assert [(one["revision"], one["removed"], one["data"]) for one in kept] == [(4, True, None), (3, False, "taken")]


@pytest.mark.rule("M8")
def test_an_artifact_that_moved_is_not_taken_from_where_it_stands(keeper: Service) -> None:
    run = paused(keeper, READS)
    somebody(keeper, "other/main", removes("a", 1))
    somebody(keeper, "third/main", creates("a", THEN))
    [difference] = differences(resume(keeper, run))
    assert (difference["change"], difference["restorable"]) == ("moved", False)
    assert difference["now"]["loomName"] == "third"
    again = resume(keeper, run, scope="artifacts")
    assert "remove it there first" in differences(again)[0]["because"]
    assert keeper.run(run["runId"]) == run
    assert resume(keeper, run, abandonMirror=True)["receipt"]["status"] == "accepted"
    assert standing(keeper, "a") == (1, THEN)


@pytest.mark.rule("M8")
def test_what_the_run_itself_removed_and_others_made_again_is_removed_again(keeper: Service) -> None:
    run = paused(keeper, [{"put": "mine"}, {"remove": True}, {}], steps=2)
    [mine] = run["results"]["artifactIds"]
    somebody(keeper, "keeper/main", creates(mine, "theirs"))
    [difference] = differences(resume(keeper, run))
    assert (difference["change"], difference["then"]) == ("appeared", {"removed": True})
    assert resume(keeper, run, scope="artifacts")["receipt"]["status"] == "accepted"
    assert standing(keeper, mine) is None


@pytest.mark.rule("M8")
def test_artifacts_that_the_run_never_touched_may_change(keeper: Service) -> None:
    somebody(keeper, "third/main", creates("c", 1))
    run = paused(keeper, READS)
    somebody(keeper, "third/main", replaces("c", 1, 2))
    assert resume(keeper, run)["receipt"]["status"] == "accepted"


@pytest.mark.rule("M8")
def test_what_changed_before_the_pause_is_what_the_run_depends_on(keeper: Service) -> None:
    run_id = keeper.start("keeper", do=[*READS, {"read": [["third", "main"]]}])
    keeper.operate("pause_run", runId=run_id)
    run = keeper.run(run_id)
    resume(keeper, run, steps=1)
    keeper.work()
    somebody(keeper, "other/main", replaces("a", 1, "meanwhile"))
    resume(keeper, keeper.run(run_id), abandonMirror=True, steps=1)
    keeper.work()
    # The second pause took note of what stood then, read or not.
    assert resume(keeper, keeper.run(run_id))["receipt"]["status"] == "accepted"


@pytest.mark.rule("M8")
def test_a_fork_depends_on_what_its_source_had_seen_at_that_boundary(keeper: Service) -> None:
    run_id = keeper.start("keeper", do=READS)
    keeper.work()
    somebody(keeper, "other/main", replaces("a", 1, {"n": 9}))
    early, late = (keeper.operate("fork_run", runId=run_id, boundary=b)["run"] for b in (0, 2))
    assert resume(keeper, early)["receipt"]["status"] == "accepted", "at its beginning it had seen nothing"
    [difference] = differences(resume(keeper, late))
    assert difference["then"]["revision"] == 1
    assert resume(keeper, late, scope="artifacts")["receipt"]["status"] == "accepted"
    assert keeper.run(late["runId"])["status"] == "completed"
    assert standing(keeper, "a") == (3, THEN)


@pytest.mark.rule("M8")
@pytest.mark.parametrize(("scope", "code"), [("state", None), ("all", None), ("artifacts", "MIRROR_DIVERGED")])
def test_a_state_that_is_another_one_is_told_and_brought_back(keeper: Service, scope: str, code: str | None) -> None:
    run = paused(keeper, READS)
    row = Run.objects.select_related("state").get(pk=run["runId"])
    assert row.state is not None
    was = row.state.data
    edited = State.objects.create(run=row, stage="main", data={**was, "index": 2}, created_at=clock.now())
    Run.objects.filter(pk=row.pk).update(state=edited)
    refused = resume(keeper, run)
    [difference] = differences(refused)
    assert (difference["kind"], difference["stageName"], difference["restorable"]) == ("state", "main", True)
    assert difference["patch"] == [{"op": "replace", "path": "/index", "value": 2}]
    assert refused["error"]["details"]["ways"][0]["with"] == {"scope": "state"}
    result = resume(keeper, run, scope=scope)
    assert result.get("error", {}).get("code") == code
    if code is None:
        now = Run.objects.select_related("state").get(pk=row.pk)
        assert now.state is not None and now.state.data == was
        assert now.state.pk not in (edited.pk, row.state.pk), "as a new revision"


@pytest.mark.rule("M8")
def test_a_state_that_is_not_kept_any_more_can_only_be_abandoned(keeper: Service) -> None:
    run = paused(keeper, READS)
    row = Run.objects.get(pk=run["runId"])
    State.objects.filter(pk=row.state_id).update(data={"index": 1, "seen": ["edited"]})
    [difference] = differences(resume(keeper, run, scope="state"))
    assert (difference["restorable"], "patch" in difference) == (False, False)
    assert resume(keeper, run, abandonMirror=True)["receipt"]["status"] == "accepted"


@pytest.mark.rule("M8", "R14")
def test_a_run_that_the_service_paused_compares_nothing(keeper: Service) -> None:
    from django.db import transaction

    run = paused(keeper, READS)
    resume(keeper, run)
    with transaction.atomic():
        forbid(Run.objects.get(pk=run["runId"]), now=clock.now())
    somebody(keeper, "other/main", replaces("a", 1, "meanwhile"))
    run = keeper.run(run["runId"])
    assert (run["status"], run["lastError"]["code"]) == ("paused", "FORBIDDEN")
    assert resume(keeper, run, scope="artifacts")["receipt"]["status"] == "accepted"
    assert standing(keeper, "a") == (2, "meanwhile")


@pytest.mark.rule("M8", "E3")
def test_both_ways_at_once_are_an_invalid_request(keeper: Service) -> None:
    run = paused(keeper, READS)
    refused = resume(keeper, run, scope="all", abandonMirror=True)
    assert refused["error"]["code"] == "INVALID_REQUEST" and "receipt" not in refused
    [issue] = refused["error"]["validation"]["issues"]
    assert issue["path"] == "/abandonMirror"
    assert resume(keeper, run, scope="all", abandonMirror=False)["receipt"]["status"] == "accepted"


@pytest.mark.rule("M8")
def test_a_big_difference_is_told_by_its_size(keeper: Service) -> None:
    run = paused(keeper, READS)
    somebody(keeper, "other/main", replaces("a", 1, ["x" * 100_000]))
    [difference] = differences(resume(keeper, run))
    assert "patch" not in difference and difference["size"] == {"then": 27, "now": 100_004}


@pytest.mark.rule("M8", "E3")
def test_many_differences_are_told_in_a_bounded_answer(keeper: Service) -> None:
    places = [[f"other{n}", "main"] for n in range(60)]
    for n in range(60):
        somebody(keeper, f"other{n}/main", creates(f"a{n}", ["then"] * 90))
    run = paused(keeper, [{"read": places}, {}])
    for n in range(60):
        somebody(keeper, f"other{n}/main", replaces(f"a{n}", 1, [str(n), *["then"] * 89]))
    refused = resume(keeper, run)
    assert len(differences(refused)) == 50 and refused["error"]["details"]["truncated"]
    patched = [one.get("patch") for one in differences(refused)]
    assert all(patched[:1]) and patched[10:] == [None] * 40, "the first few; of the others the sizes"
    assert "and 57 more" in refused["error"]["message"]
    assert len(json_text.dumps(refused["error"])) < 64 * 1024
    with CaptureQueriesContext(connection) as captured:
        assert resume(keeper, run, scope="artifacts")["receipt"]["status"] == "accepted"
    many = len(captured)
    few = paused(keeper, READS)
    somebody(keeper, "other/main", replaces("a", 1, "now"))
    with CaptureQueriesContext(connection) as captured:
        assert resume(keeper, few, scope="artifacts")["receipt"]["status"] == "accepted"
    assert many == len(captured)
    assert all(standing(keeper, f"a{n}") == (3, ["then"] * 90) for n in range(60))


@pytest.mark.rule("M8", "R9")
def test_a_pause_between_steps_keeps_what_the_run_depends_on(keeper: Service) -> None:
    run_id = keeper.start("keeper", do=READS)
    begun = lease(keeper)
    step = land([SegmentResult(begun, execute(begun), keep=True)], now=clock.now())[0].next
    assert step is not None
    land([SegmentResult(step, execute(step))], now=clock.now())
    keeper.operate("pause_run", runId=run_id)
    run = keeper.run(run_id)
    assert (run["status"], run["boundary"]) == ("paused", 1)
    somebody(keeper, "other/main", replaces("a", 1, "meanwhile"))
    [difference] = differences(resume(keeper, run))
    assert difference["artifactId"] == "a"


@pytest.mark.rule("M8", "R6")
def test_what_only_a_failed_attempt_read_is_nothing_to_depend_on(keeper: Service) -> None:
    run = paused(keeper, [{"read": [["other", "main"]], "stumbles": True}, {}])
    statuses = [one["status"] for one in keeper.call("list_run_attempts", runId=run["runId"])["attempts"]]
    assert statuses == ["completed", "failed", "completed"]
    somebody(keeper, "other/main", replaces("a", 1, "meanwhile"))
    assert resume(keeper, run)["receipt"]["status"] == "accepted"
