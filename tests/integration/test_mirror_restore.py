"""Restoring Mirrors over the real ledger (M5, M7)."""

from __future__ import annotations

import io
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from apps.access.models import Credential, Project
from apps.access.selectors.projects import project_named
from apps.access.services.credentials import create_credential, grant_mirror_writes
from apps.access.services.projects import create_project
from apps.core import clock, json_text
from apps.core.caller import Caller, Source
from apps.core.errors import ErrorCode, LoomError
from apps.ledger.models import Event, Operation
from apps.looms.checking.check import check_files
from apps.looms.models import Release
from apps.looms.services import releases
from apps.mcp.commands import next_step
from apps.mirrors.models import Mirror, Placement
from apps.results.models import Artifact, ArtifactRevision, Record
from apps.runs.models import Run
from tests.conftest import Service, caller_in
from tests.integration.mirror_work import RICH, export, mirrors_folder

__all__ = ["mirrors_folder"]
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("mirrors_folder")]


@pytest.fixture
def other(service: Service) -> Service:
    """The same ledger's Project ``target``; the caller of ``trials`` may write Mirrors into it."""
    project = create_project(name="target", now=clock.now())
    credential, _ = create_credential(project=project_named("trials"), source=Source.CLI, label="x", now=clock.now())
    grant_mirror_writes(public_id=credential.public_id, projects=[project])
    service.caller = replace(service.caller, credential_id=credential.pk)
    return Service(caller_in(project), service.instance_id)


def restore(service: Service, mirror: dict[str, Any], scope: str = "all", **more: Any) -> dict[str, Any]:
    result = service.call("mirror_restore", mirrorId=mirror["mirrorId"], targetProject="target", scope=scope, **more)
    assert "error" not in result, result
    return result


def actions(result: dict[str, Any]) -> dict[str, str]:
    return {f"{entry['kind']}": entry["action"] for entry in result["plan"]}


@pytest.mark.rule("M6")
def test_a_plan_asks_once_which_projects_a_caller_may_write_into(service: Service, other: Service) -> None:
    mirror = export(service, service.finish(do=RICH))
    with CaptureQueriesContext(connection) as captured:
        restore(service, mirror, dryRun=True)
    assert sum('FROM "access_project"' in each["sql"] for each in captured) == 1


def everything(project: str = "target") -> list[Any]:
    """All rows of a Project that a restore may touch."""
    mine = {"project__name": project}
    return [
        sorted(map(str, rows))
        for rows in (
            Artifact.objects.filter(**mine).values_list(),
            ArtifactRevision.objects.filter(artifact__project__name=project).values_list(),
            Record.objects.filter(**mine).values_list(),
            Run.objects.filter(**mine).values_list(),
            Placement.objects.filter(**mine).values_list(),
            Event.objects.filter(run_id__in=Run.objects.filter(**mine).values("id")).values_list(),
            Release.objects.values_list("digest", "trusted"),
        )
    ]


def forget_release(digest: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on an installation that never had it."""
    Release.objects.filter(pk=digest).delete()
    monkeypatch.setattr(releases, "_loaded", {})


@pytest.mark.rule("M5")
def test_a_restored_run_goes_on_where_the_other_stood(service: Service, other: Service) -> None:
    run = service.finish(do=[*RICH[:2], {"ending": "leave"}])
    mirror = export(service, run)
    assert mirror["boundary"] == run["boundary"] == 4
    before = everything()
    told = restore(service, mirror, dryRun=True)
    assert (told["applied"], "run" in told, everything() == before) == (False, False, True)
    done = restore(service, mirror)
    assert done["plan"] == told["plan"]
    assert actions(done) == {"artifact": "create", "record": "create", "release": "unchanged", "run": "create"}
    assert done["applied"] is True
    restored = done["run"]
    assert restored["runId"] != run["runId"]
    assert (restored["traceId"], restored["status"], restored["origin"], restored["project"]) == (
        run["traceId"], "paused", None, "target",
    )  # fmt: skip
    assert restored["restoredFrom"] == {"mirrorId": mirror["mirrorId"], "runId": run["runId"], "boundary": 4}
    assert restored["execution"] == {"source": "cli", "agentExecutor": "service_model"}
    there = other.call("get_artifact", loomName="trial", stageName="work")["artifact"]
    assert (there["data"], there["revision"], there["runId"]) == ({"n": 2.5, "t": "α"}, 2, run["runId"])
    assert other.call("get_record", recordId="first")["record"]["data"] == {"index": 0}
    resumed = other.operate("resume_run", runId=restored["runId"], expectedRevision=restored["revision"])
    assert resumed["run"]["status"] == "completed", resumed
    assert resumed["run"]["outcome"] == run["outcome"]


@pytest.mark.rule("M5")
def test_repeating_a_restore_changes_nothing_whatever_became_of_it(service: Service, other: Service) -> None:
    mirror = export(service, service.finish(do=RICH))
    first = restore(service, mirror)
    after = everything()
    again = restore(service, mirror)
    assert set(actions(again).values()) == {"unchanged"}
    assert (again["applied"], again["run"]) == (True, first["run"])
    assert everything() == after
    other.operate("cancel_run", runId=first["run"]["runId"])
    other.finish(do=[{"ending": "done", "artifact": "others"}])
    Record.objects.filter(project__name="target").delete()
    after = everything()
    for scope in ("artifacts", "records", "run", "all"):
        assert set(actions(restore(service, mirror, scope)).values()) == {"unchanged"}, scope
    assert everything() == after


@pytest.mark.rule("M5")
@pytest.mark.parametrize(
    ("scope", "kinds"),
    [("artifacts", {"artifact"}), ("records", {"record"}), ("run", {"release", "run"})],
)
def test_a_scope_restores_its_part_only(service: Service, other: Service, scope: str, kinds: set[str]) -> None:
    mirror = export(service, service.finish(do=RICH))
    before = everything()
    done = restore(service, mirror, scope)
    assert actions(done).keys() == kinds
    assert ("run" in done) == ("run" in kinds)
    places, _, records, runs, *_ = everything()
    assert [places != before[0], records != before[2], runs != before[3]] == [
        "artifact" in kinds, "record" in kinds, "run" in kinds,
    ]  # fmt: skip


@pytest.mark.rule("M5", "M8")
def test_a_run_alone_can_bring_its_artifacts_back_when_it_is_resumed(service: Service, other: Service) -> None:
    mirror = export(service, service.finish(do=RICH))
    run = restore(service, mirror, "run")["run"]
    resume = {"runId": run["runId"], "expectedRevision": run["revision"]}
    assert other.operate("resume_run", **resume)["error"]["code"] == "MIRROR_DIVERGED"
    assert "error" not in other.operate("resume_run", **resume, scope="artifacts")
    assert other.call("get_artifact", loomName="trial", stageName="work")["artifact"]["data"] == {"n": 2.5, "t": "α"}


@pytest.mark.rule("M5", "R8")
def test_an_exclusive_loom_has_room_for_one_run(service: Service, other: Service) -> None:
    run_id = service.operate("run", loomName="single", input={})["run"]["runId"]
    run = service.run(run_id)
    mirror = export(service, run)
    busy = other.operate("run", loomName="single", input={})["run"]
    before = everything()
    refused = restore(service, mirror)
    assert (refused["applied"], actions(refused)["run"], everything() == before) == (False, "conflict", True)
    assert busy["runId"] in next(entry["reason"] for entry in refused["plan"] if entry["kind"] == "run")
    other.operate("cancel_run", runId=busy["runId"])
    assert restore(service, mirror)["applied"] is True


PREPARED = st.fixed_dictionaries(
    {
        "artifact": st.sampled_from(["nothing", "same", "other", "same trace", "elsewhere", "removed"]),
        "record": st.sampled_from(["nothing", "same", "other"]),
        "before": st.lists(st.sampled_from(["artifacts", "records", "run", "all"]), max_size=2),
        "scope": st.sampled_from(["artifacts", "records", "run", "all"]),
    }
)


def prepare(other: Service, run: dict[str, Any], how: dict[str, Any], number: int) -> None:
    """Put something into the target Project, as other Runs would have."""
    project = Project.objects.get(name="target")
    now = clock.now()
    mine = Run.objects.filter(pk=run["runId"])

    def put(artifact_id: str, data: Any, *, stage: str = "work", removed: bool = False) -> None:
        place = Artifact.objects.create(
            project=project, loom_name="trial", stage_name=stage, revision=1, created_at=now, updated_at=now,
            artifact_id=None if removed else artifact_id,
        )  # fmt: skip
        ArtifactRevision.objects.create(
            artifact=place, revision=1, artifact_id_then=artifact_id, data=data, digest=json_text.digest(data),
            removed=removed, run_id=mine.get().pk if how["artifact"] == "same trace" else project.pk, created_at=now,
        )  # fmt: skip

    artifact_id = run["results"]["artifactIds"][0]
    match how["artifact"]:
        case "same":
            put(artifact_id, {"n": 2.5, "t": "α"})
        case "other":
            put("others", "x")
        case "same trace":
            put(artifact_id, {"n": 1})
        case "elsewhere":
            put(artifact_id, 1, stage="somewhere")
        case "removed":
            put("gone", None, removed=True)
    if how["record"] != "nothing":
        data = {"index": 0} if how["record"] == "same" else "other"
        Record.objects.create(
            project=project, record_id="first", loom_name="trial", stage_name="work", data=data,
            digest=json_text.digest(data), run_id=project.pk, created_at=now,
        )  # fmt: skip


def clear() -> None:
    """Empty the target Project again."""
    from apps.runs.models import KeptArtifact, StartingBoundary, State

    mine = {"project__name": "target"}
    runs = Run.objects.filter(**mine)
    Placement.objects.filter(**mine).delete()
    ArtifactRevision.objects.filter(artifact__project__name="target").delete()
    Artifact.objects.filter(**mine).delete()
    Record.objects.filter(**mine).delete()
    KeptArtifact.objects.filter(run__in=runs).delete()
    StartingBoundary.objects.filter(run__in=runs).delete()
    runs.update(state=None)
    State.objects.filter(run__in=runs).delete()
    runs.delete()


@pytest.mark.rule("M5")
def test_a_dry_run_says_what_applying_then_does(service: Service, other: Service) -> None:
    run = service.finish(do=RICH)
    mirror = export(service, run)
    seen: set[tuple[str, ...]] = set()

    @given(PREPARED)
    @example({"artifact": "nothing", "record": "nothing", "before": [], "scope": "all"})
    @example({"artifact": "other", "record": "nothing", "before": [], "scope": "all"})
    @example({"artifact": "other", "record": "nothing", "before": [], "scope": "artifacts"})
    @example({"artifact": "same", "record": "same", "before": [], "scope": "records"})
    @settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
    def check(how: dict[str, Any]) -> None:
        clear()
        prepare(other, run, how, len(seen))
        for scope in how["before"]:
            restore(service, mirror, scope)
        before = everything()
        told = restore(service, mirror, how["scope"], dryRun=True)
        assert everything() == before, "a dry run writes nothing"
        done = restore(service, mirror, how["scope"])
        assert done["plan"] == told["plan"]
        conflict = any(entry["action"] == "conflict" for entry in done["plan"])
        assert done["applied"] is not conflict
        changes = {entry["action"] for entry in done["plan"]} - {"unchanged"}
        assert (everything() == before) == (conflict or not changes), done
        seen.add(tuple(sorted(changes)))
        if not conflict:
            again = restore(service, mirror, how["scope"])
            assert {entry["action"] for entry in again["plan"]} <= {"unchanged"}
            for entry in done["plan"]:
                if entry["kind"] == "artifact" and entry["action"] in ("create", "replace"):
                    there = other.call("get_artifact", artifactId=entry["id"])["artifact"]
                    assert there["data"] == {"n": 2.5, "t": "α"}

    check()
    assert len(seen) > 3, "the preparations differ in what they lead to"


@pytest.mark.rule("M5")
def test_restores_at_the_same_moment_make_one_run(service: Service, other: Service) -> None:
    mirror = export(service, service.finish(do=RICH))
    together = threading.Barrier(4)
    came: list[dict[str, Any]] = []

    def one() -> None:
        try:
            together.wait()
            came.append(restore(service, mirror))
        finally:
            connection.close()

    threads = [threading.Thread(target=one) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({result["run"]["runId"] for result in came}) == 1
    assert [result["applied"] for result in came] == [True] * 4
    assert Run.objects.filter(project__name="target").count() == 1
    assert Record.objects.filter(project__name="target").count() == 1


@pytest.mark.rule("M5", "F26")
def test_a_restore_that_dies_in_the_middle_leaves_nothing(
    service: Service, other: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    from apps.core.failpoints import FailpointRaised

    mirror = export(service, service.finish(do=RICH))
    before = everything()
    monkeypatch.setenv("LOOMSVC_FAILPOINT", "in_mirror_restore:raise")
    with pytest.raises(FailpointRaised):
        restore(service, mirror)
    assert everything() == before
    monkeypatch.delenv("LOOMSVC_FAILPOINT")
    assert restore(service, mirror)["applied"] is True


@pytest.mark.rule("M7", "K22")
def test_a_damaged_mirror_restores_nothing(service: Service, other: Service, mirrors_folder: Path) -> None:
    mirror = export(service, service.finish(do=RICH))
    (path,) = mirrors_folder.rglob("*.zip")
    path.write_bytes(path.read_bytes()[:-30])
    before = everything()
    for dry in (True, False):
        refused = service.call(
            "mirror_restore", mirrorId=mirror["mirrorId"], targetProject="target", scope="all", dryRun=dry
        )
        assert refused["error"]["code"] == "MIRROR_INVALID"
        assert str(mirrors_folder) not in str(refused)
    assert everything() == before


@pytest.mark.rule("M7", "K22")
@pytest.mark.parametrize("boundary", [0, 2])
def test_a_release_from_a_mirror_runs_once_it_is_trusted(
    service: Service, other: Service, monkeypatch: pytest.MonkeyPatch, boundary: int
) -> None:
    run_id = service.start(do=RICH)
    if boundary:
        service.work()
    run = service.run(run_id)
    mirror = export(service, run)
    service.operate("cancel_run", runId=run_id)
    forget_release(run["releaseDigest"], monkeypatch)
    loaded: list[str] = []
    monkeypatch.setattr(releases, "check_files", lambda *a, **k: loaded.append("it was loaded"))
    done = restore(service, mirror)
    assert actions(done)["release"] == "create"
    restored = done["run"]
    resume = {"runId": restored["runId"], "expectedRevision": restored["revision"]}
    refused = other.operate("resume_run", **resume)
    assert refused["error"]["code"] == "RELEASE_UNAVAILABLE"
    assert f"release_trust {run['releaseDigest']}" in refused["error"]["message"]
    told = LoomError(ErrorCode.RELEASE_UNAVAILABLE, "", details=refused["error"]["details"])
    hint = next_step(told)
    assert hint and f"release_trust {run['releaseDigest']} --show" in hint
    assert other.run(restored["runId"]) == restored, "it is as it was"
    assert loaded == [], "no Code was loaded"
    monkeypatch.setattr(releases, "check_files", check_files)
    out = io.StringIO()
    call_command("release_trust", run["releaseDigest"], "--show", stdout=out)
    assert "loom: trial" in out.getvalue()
    assert other.operate("resume_run", **resume)["error"]["code"] == "RELEASE_UNAVAILABLE", "shown is not trusted"
    call_command("release_trust", run["releaseDigest"], stdout=out)
    resumed = other.operate("resume_run", **resume)
    assert "error" not in resumed, resumed
    other.work()
    assert other.run(restored["runId"])["status"] == "waiting"


@pytest.mark.rule("K22", "M5")
def test_a_restore_brings_no_users_credentials_and_operations(
    service: Service, other: Service, django_user_model: Any
) -> None:
    mirror = export(service, service.finish(do=RICH))
    counts = (Credential.objects.count(), django_user_model.objects.count(), Operation.objects.count())
    credentials = list(Credential.objects.values())
    restore(service, mirror)
    assert (Credential.objects.count(), django_user_model.objects.count(), Operation.objects.count()) == counts
    assert list(Credential.objects.values()) == credentials


@pytest.mark.rule("M5", "M6", "E5")
def test_only_where_one_may_write_and_only_what_one_sees(service: Service, other: Service) -> None:
    create_project(name="strangers", now=clock.now())
    mirror = export(service, service.finish(do=RICH))

    def code(caller: Caller, target: str) -> str:
        asked = {"mirrorId": mirror["mirrorId"], "targetProject": target, "scope": "all"}
        return str(service.call("mirror_restore", caller=caller, **asked)["error"]["code"])

    assert code(service.caller, "strangers") == "NOT_FOUND"
    assert code(other.caller, "target") == "NOT_FOUND", "the Mirror is another Project's"
    agent = replace(service.caller, source=Source.AGENT_IDE, entry="/mcp")
    run = service.call(
        "mirror_restore", caller=agent, mirrorId=mirror["mirrorId"], targetProject="target", scope="run"
    )["run"]
    assert run["execution"] == {"source": "agent_ide", "agentExecutor": "mcp_client"}, "the restoring Entry's policy"


@pytest.mark.rule("M1", "M5")
def test_a_restored_run_is_mirrored_again_with_all_that_it_came_with(service: Service, other: Service) -> None:
    run = service.finish(do=RICH)
    mirror = export(service, run)
    for scope in ("run", "all"):
        clear()
        restored = restore(service, mirror, scope)["run"]
        again = other.call("mirror_export", traceId=restored["traceId"], targetProject="target")
        assert "error" not in again, again
        held = other.call("mirror_inspect", mirrorId=again["mirror"]["mirrorId"])
        assert held["verification"]["status"] == "verified"
        assert held["manifest"]["counts"]["artifacts"] == 1
        forked = other.operate("fork_run", runId=restored["runId"], boundary=2)["run"]
        of_fork = other.call("mirror_export", traceId=restored["traceId"], targetProject="target")["mirror"]
        assert (of_fork["runId"], of_fork["boundary"]) == (forked["runId"], 2)
        Mirror.objects.filter(project__name="target").delete()
