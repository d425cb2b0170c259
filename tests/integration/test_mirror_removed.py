"""Mirrors of restored Runs at whose places one Artifact followed another (M1, M5)."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.core.management import call_command

from apps.access.services.projects import create_project
from apps.core import clock
from tests.conftest import Service, caller_in
from tests.integration.diverging_runs import add_keeper, paused, standing
from tests.integration.mirror_work import export, file_of, mirrors_folder
from tests.integration.test_mirror_restore import other, restore
from tests.tools.mirror_reader import open_mirror

__all__ = ["mirrors_folder", "other"]
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("mirrors_folder")]


@pytest.mark.rule("M1", "M5")
@pytest.mark.parametrize("scope", ["run", "all"])
def test_what_follows_a_removed_artifact_at_its_place_hides_it_from_no_mirror(
    service: Service, other: Service, loom_paths: Path, tmp_path: Path, scope: str
) -> None:
    add_keeper(loom_paths)
    run = service.finish(
        "keeper",
        do=[
            {"create": {"id": "a", "data": 1}},
            {"remove": True},
            {"create": {"id": "b", "data": 1}},
            {"put": 2},
            {"put": 3},
        ],
    )
    forked = service.operate("fork_run", runId=run["runId"], boundary=2)["run"]
    mirror = export(service, forked)
    restored = restore(service, mirror, scope)["run"]
    went = other.operate("resume_run", runId=restored["runId"], expectedRevision=restored["revision"])
    assert "error" not in went, went
    other.work()
    ended = other.run(restored["runId"])
    assert ended["status"] == "completed", ended
    again = other.call("mirror_export", traceId=restored["traceId"], targetProject="target")
    assert "error" not in again, again
    file = tmp_path / "again.zip"
    file.write_bytes(file_of(again["mirror"]))
    with open_mirror(file) as found:
        [line] = found.lines("run.jsonl")
        seen = [(one["artifactId"], one["revision"], one["removed"]) for one in line["held"]["dependencies"]]
        assert seen == [("a", 2, True), ("b", 3, False)]
    third = create_project(name="third", now=clock.now())
    elsewhere = Service(caller_in(third), service.instance_id)
    call_command("mirror_restore", "--from", str(file), "--project", "third", "--json")
    [moved] = elsewhere.call("list_runs")["runs"]
    assert (moved["status"], moved["boundary"]) == ("paused", 5)
    assert elsewhere.call("get_artifact", artifactId="b")["artifact"]["data"] == 3


@pytest.mark.rule("M5")
def test_what_was_removed_makes_room_at_its_place_for_what_followed_it(
    service: Service, other: Service, loom_paths: Path
) -> None:
    add_keeper(loom_paths)
    steps = [{"create": {"id": "b", "data": 1}}, {"remove": True}, {"create": {"id": "a", "data": 2}}, {}]
    run = paused(service, steps)
    restore(service, export(service, run), "artifacts")
    assert standing(other, "b") == (1, 1)
    service.operate("resume_run", runId=run["runId"], expectedRevision=run["revision"])
    service.work()
    done = restore(service, export(service, run), "artifacts")
    assert {entry["id"]: entry["action"] for entry in done["plan"]} == {"a": "replace", "b": "replace"}
    assert (standing(other, "a"), standing(other, "b")) == ((3, 2), None)
