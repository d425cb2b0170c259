"""The commands for Mirrors: on the ledger itself, for people and for scripts (M3–M7)."""

from __future__ import annotations

import datetime as dt
import errno
import io
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import OperationalError, connection

from apps.access.models import Credential
from apps.access.selectors.projects import project_named
from apps.access.services.projects import create_project, ensure_default_project
from apps.core import clock
from apps.ledger.models import ServiceInstance
from apps.mirrors import storage
from apps.mirrors.models import Mirror
from apps.runs.models import Run
from tests.conftest import Service, caller_in
from tests.integration.mirror_work import RICH, export, mirrors_folder

__all__ = ["mirrors_folder"]
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("mirrors_folder")]


def said(*arguments: str, code: int = 0) -> str:
    """What the command prints, when it ends with ``code``."""
    out, ended = io.StringIO(), 0
    try:
        call_command(*arguments, stdout=out)
    except SystemExit as end:
        ended = int(end.code or 0)
    assert ended == code, (ended, out.getvalue())
    return out.getvalue()


def told(*arguments: str, code: int = 0) -> Any:
    """The same, as JSON."""
    return json.loads(said(*arguments, "--json", code=code))


@pytest.fixture
def run(service: Service) -> dict[str, Any]:
    create_project(name="target", now=clock.now())
    return service.finish(do=RICH)


@pytest.mark.rule("M1", "M5", "M6")
@pytest.mark.parametrize("name", ["moved.zip", "moved"])
def test_a_trace_goes_out_and_comes_in_elsewhere(
    service: Service, run: dict[str, Any], tmp_path: Path, name: str
) -> None:
    place = tmp_path / name
    out = told("mirror_export", run["traceId"], "--project", "trials", "--to", str(place))
    assert out == {"digest": out["digest"], "runId": run["runId"], "boundary": run["boundary"], "to": str(place)}
    assert Mirror.objects.count() == 0, "it was written there and nowhere else"
    found = told("mirror_inspect", "--from", str(place))
    assert (found["manifest"]["digest"], found["verification"]["status"]) == (out["digest"], "verified")
    restoring = ("mirror_restore", "--from", str(place), "--project", "target")
    plan = told(*restoring, "--dry-run")
    assert (plan["applied"], Mirror.objects.count(), Run.objects.filter(project__name="target").count()) == (
        False,
        0,
        0,
    )
    done = told(*restoring)
    assert (done["applied"], done["plan"], done["run"]["status"]) == (True, plan["plan"], "paused")
    (held,) = told("mirror_list", "--project", "target")["mirrors"]
    assert (held["mirrorId"], held["kind"]) == (done["mirrorId"], "imported")
    assert held["mirrorId"] == done["run"]["restoredFrom"]["mirrorId"]
    again = told(*restoring)
    assert (again["runId"], {entry["action"] for entry in again["plan"]}) == (done["runId"], {"unchanged"})
    agents = told("mirror_restore", held["mirrorId"], "--project", "trials", "--scope", "run", "--source", "agent_ide")
    assert agents["run"]["execution"]["agentExecutor"] == "mcp_client"
    assert Run.objects.get(pk=agents["runId"]).principal == "operator"


@pytest.mark.rule("M4")
def test_any_boundary_and_run_can_be_mirrored_into_a_project(service: Service, run: dict[str, Any]) -> None:
    asked = ("mirror_export", run["traceId"], "--project", "trials")
    first = told(*asked, "--boundary", "1", "--run-id", run["runId"], "--target-project", "target")["mirror"]
    assert (first["boundary"], first["project"]) == (1, "target")
    assert told(*asked)["mirror"]["project"] == "trials"
    with pytest.raises(CommandError, match="does not hold boundary 9"):
        said(*asked, "--boundary", "9")
    with pytest.raises(CommandError, match=r"No trace .* `get_run` shows the traceId of a Run"):
        said("mirror_export", run["traceId"], "--project", "target")


@pytest.mark.rule("M4")
def test_it_is_said_which_run_of_the_trace_was_mirrored_and_up_to_where(
    service: Service, run: dict[str, Any], tmp_path: Path
) -> None:
    fork = service.operate("fork_run", runId=run["runId"], boundary=1)["run"]["runId"]
    asked = ("mirror_export", run["traceId"], "--project", "trials")
    assert f"Run {fork} at boundary 1.\nMirror " in said(*asked)
    out = told(*asked, "--run-id", run["runId"], "--to", str(tmp_path / "a.zip"))
    assert (out["runId"], out["boundary"]) == (run["runId"], run["boundary"])


@pytest.mark.rule("M1")
@pytest.mark.parametrize("links", [True, False], ids=["a disk", "a stick without hard links"])
def test_a_mirror_that_is_held_can_be_written_out(
    service: Service, run: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: bool
) -> None:
    def refuse(*_: Any) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    if not links:
        monkeypatch.setattr(os, "link", refuse)
    mirror = export(service, run)
    assert "Written to" in said("mirror_export", "--mirror", mirror["mirrorId"], "--to", str(tmp_path / "a.zip"))
    said("mirror_export", run["traceId"], "--project", "trials", "--to", str(tmp_path / "b.zip"))
    assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()
    with pytest.raises(CommandError, match=r"something called a\.zip already"):
        said("mirror_export", "--mirror", mirror["mirrorId"], "--to", str(tmp_path / "a.zip"))
    with pytest.raises(CommandError, match="cannot be written"):
        said("mirror_export", "--mirror", mirror["mirrorId"], "--to", str(tmp_path / "none" / "a"))
    assert sorted(path.name for path in tmp_path.glob("*.zip")) == ["a.zip", "b.zip"]
    assert list(tmp_path.glob(".mirror-*")) == []


@pytest.mark.rule("M5")
def test_a_conflict_is_shown_and_ends_with_1(service: Service, run: dict[str, Any]) -> None:
    other = Service(caller_in(project_named("target")), service.instance_id)
    other.finish(do=[{"ending": "done", "artifact": "theirs"}])
    mirror = export(service, run)
    shown = said("mirror_restore", mirror["mirrorId"], "--project", "target", code=1)
    assert "conflict" in shown and "another trace" in shown and "Nothing was done" in shown
    assert said("mirror_restore", mirror["mirrorId"], "--project", "target", "--dry-run", code=1)
    assert "is paused" in said("mirror_restore", mirror["mirrorId"], "--project", "target", "--scope", "run")


@pytest.mark.rule("M5")
def test_a_restored_run_is_told_with_the_very_command_that_goes_on(service: Service, run: dict[str, Any]) -> None:
    mirror = export(service, run)
    restoring = ("mirror_restore", mirror["mirrorId"])
    target = Service(caller_in(ensure_default_project(now=clock.now())), service.instance_id)
    shown = said(*restoring)
    given = re.search(r"go on with `loomsvc resume_run (\S+) --expected-revision (\d+)( --data \S+)?`", shown)
    assert given is not None and given[3], shown
    resumed = target.operate("resume_run", runId=given[1], expectedRevision=int(given[2]))
    assert resumed["receipt"]["status"] == "accepted"
    target.work()
    assert target.run(given[1])["status"] == "waiting"
    assert f"Run {given[1]} is waiting" in said(*restoring)
    ServiceInstance.objects.update(current=None)
    assert f"Start the service; then `loomsvc get_run {given[1]}" in said(*restoring)


@pytest.mark.rule("M5", "N1")
def test_a_run_restored_into_another_project_is_not_told_with_a_command_that_does_not_reach_it(
    service: Service, run: dict[str, Any]
) -> None:
    mirror = export(service, run)
    shown = said("mirror_restore", mirror["mirrorId"], "--project", "target")
    (restored,) = Run.objects.filter(project=project_named("target"))
    assert f"Run {restored.pk} is paused in Project target" in shown
    assert "loomsvc resume_run" not in shown
    given = re.search(r"`loomsvc (token_create --project target --source studio --label) TEXT", shown)
    assert given is not None, shown
    assert told(*given[1].split(), "x")["project"] == "target"


@pytest.mark.rule("M7")
def test_what_is_no_mirror_is_refused_and_nothing_written(
    service: Service, run: dict[str, Any], tmp_path: Path
) -> None:
    path = tmp_path / "damaged.zip"
    said("mirror_export", run["traceId"], "--project", "trials", "--to", str(path))
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    found = told("mirror_inspect", "--from", str(path), code=1)
    assert (found["manifest"], found["verification"]["status"]) == (None, "damaged")
    assert "Damaged" in said("mirror_inspect", "--from", str(path), code=1)
    for place in (path, tmp_path / "nowhere", Path("/dev/zero")):
        with pytest.raises(CommandError, match="MIRROR_INVALID") as refused:
            said("mirror_restore", "--from", str(place), "--project", "target")
        assert str(tmp_path) not in str(refused.value)
    assert (Mirror.objects.count(), Run.objects.filter(project__name="target").count()) == (0, 0)


@pytest.mark.rule("M3")
def test_all_mirrors_are_verified_at_once(service: Service, run: dict[str, Any], mirrors_folder: Path) -> None:
    kept = export(service, run)
    said("mirror_export", run["traceId"], "--project", "trials", "--target-project", "target")
    damaged = export(service, service.finish(do=[]))
    assert told("mirror_verify", "--all")["damaged"] == 0
    digest = Mirror.objects.get(mirror_id=damaged["mirrorId"]).digest
    path = mirrors_folder / storage.name_of(digest)
    path.write_bytes(path.read_bytes()[:-1])
    result = told("mirror_verify", "--all", code=1)
    assert [one["mirrorId"] for one in result["mirrors"] if one["status"] == "damaged"] == [damaged["mirrorId"]]
    assert len(result["mirrors"]) == 3
    assert "1 damaged" in said("mirror_verify", "--all", code=1)
    assert "verified" in said("mirror_verify", kept["mirrorId"])


@pytest.mark.rule("M2")
def test_pruning_removes_old_mirrors_and_files_of_nobody(
    service: Service, run: dict[str, Any], mirrors_folder: Path
) -> None:
    first = export(service, run)
    said("mirror_export", run["traceId"], "--project", "trials", "--target-project", "target")
    leftover, recent = ("aa" * 32, "bb" * 32)
    for digest in (leftover, recent):
        path = mirrors_folder / storage.name_of(digest)
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"cut off")
    os.utime(mirrors_folder / storage.name_of(leftover), (0, 0))
    assert told("mirror_prune", "--dry-run") == {"mirrorIds": [], "files": [leftover], "dryRun": True}
    assert told("mirror_prune")["files"] == [leftover]
    with clock.moved(dt.timedelta(days=8)):
        assert told("mirror_prune", "--older-than-days", "9") == {"mirrorIds": [], "files": [recent], "dryRun": False}
        one = told("mirror_prune", "--older-than-days", "7", "--project", "trials")
        assert (one["mirrorIds"], one["files"]) == ([first["mirrorId"]], []), "target's Mirror has the same file"
        assert "1 Mirrors and 1 files removed" in said("mirror_prune", "--older-than-days", "7")
    assert list(mirrors_folder.rglob("*.zip")) == []
    assert "No Mirrors" in said("mirror_list")


@pytest.mark.rule("N1")
def test_grants_are_given_shown_and_taken_back() -> None:
    create_project(name="home", now=clock.now())
    create_project(name="friends", now=clock.now())
    made = told("token_create", "--project", "home", "--source", "cli", "--label", "x", "--mirror-writes", "friends")
    assert made["mirrorProjects"] == ["friends"]
    assert "home, friends" in said("token_grant", made["publicId"], "--mirror-writes", "friends")
    assert told("token_list")[0]["mirrorProjects"] == ["friends"]
    assert "friends" in said("token_list")
    said("token_grant", made["publicId"], "--mirror-writes", "friends", "--revoke")
    assert told("token_list")[0]["mirrorProjects"] == []
    with pytest.raises(CommandError, match="no Project nowhere"):
        said("token_create", "--source", "cli", "--label", "y", "--mirror-writes", "nowhere", "--project", "home")
    assert Credential.objects.count() == 1
    with pytest.raises(CommandError, match="token_list"):
        said("token_grant", "nobody", "--mirror-writes", "home")


def test_a_credential_whose_grants_fail_is_not_made_as_nobody_has_its_text() -> None:
    create_project(name="home", now=clock.now())
    create_project(name="friends", now=clock.now())

    def ledger_lost_at_grants(execute: Any, sql: str, *rest: Any) -> Any:
        if sql.startswith("INSERT") and "mirror_projects" in sql:
            raise OperationalError("the connection was lost")
        return execute(sql, *rest)

    with connection.execute_wrapper(ledger_lost_at_grants), pytest.raises(CommandError, match="cannot be used"):
        said("token_create", "--project", "home", "--source", "cli", "--label", "x", "--mirror-writes", "friends")
    assert not Credential.objects.exists()


@pytest.mark.parametrize(
    "arguments",
    [("mirror_inspect",), ("mirror_restore", "x", "--from", "y"), ("mirror_export",), ("mirror_verify",)],
)
def test_wrong_usage_ends_with_2(arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    said(*arguments, code=2)
    assert "Give either" in capsys.readouterr().err


def test_an_unknown_release_is_not_trusted() -> None:
    with pytest.raises(CommandError, match="There is no Release"):
        said("release_trust", "0" * 64)
    with pytest.raises(CommandError, match="in full"):
        said("release_trust", "0" * 12)


def test_ids_are_whole_in_a_terminal_that_is_narrower(
    service: Service, run: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    mirror = export(service, run)
    monkeypatch.setenv("COLUMNS", "80")
    shown = Terminal()
    call_command("mirror_list", stdout=shown)
    assert mirror["mirrorId"] in shown.getvalue()
    assert run["runId"] in shown.getvalue()
