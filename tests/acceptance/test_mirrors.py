"""Mirrors between real installations, in bounded memory, and in a bucket (M1–M7, F26)."""

# ruff: noqa: F811 - the fixtures come from local_service
from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import urllib.error
import uuid
import zipfile
from pathlib import Path
from typing import Any

import pytest
from local_service import ROOT, Services, Up, environment, loomsvc, services  # noqa: F401

from apps.core import json_text
from tests.acceptance.conftest import needs_services
from tests.acceptance.scaled import own_database

PLAN = {
    "do": [
        {"ending": "again", "artifact": {"n": 1}, "record": "first"},
        {"ending": "again", "artifact": {"text": "α", "ratio": 2.5, "whole": 3.0, "deep": [{"a": None}]}},
        {"ending": "ask"},
        {"ending": "leave"},
    ]
}


def told(*arguments: str, **more: str) -> Any:
    done = loomsvc(*arguments, "--json", **more)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def operate(up: Up, path: str, **body: Any) -> Any:
    """An Operation over REST, under a fresh identity."""
    identity = {"operationId": str(uuid.uuid4()), "serviceInstanceId": up.events[-1]["serviceInstanceId"]}
    return up.rest(path, {**identity, **body})


@pytest.mark.timeout(300)
@pytest.mark.rule("M1", "M3", "M5", "M7")
def test_a_run_moves_from_an_installation_on_sqlite_to_one_on_postgresql(services: Services, tmp_path: Path) -> None:
    needs_services()
    source = services.up(tmp_path / "source")
    run = source.until(source.start("trial", PLAN), "waiting")
    file, folder = tmp_path / "run.zip", tmp_path / "run"
    # While the service runs: the commands read the ledger beside it.
    digests = {source.json("mirror_export", run["traceId"], "--to", str(to))["digest"] for to in (file, folder)}
    assert len(digests) == 1
    with zipfile.ZipFile(file) as archive:
        assert {name: archive.read(name) for name in archive.namelist()} == {
            path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()
        }, "exported twice, the same bytes"
    artifacts = [json.loads(line) for line in (folder / "artifacts.jsonl").read_bytes().splitlines()]
    source.stop()
    with own_database(os.environ["TEST_DATABASE_URL"]) as url:
        # It has other Looms: what it needs of this one comes in the Mirror.
        there = {"DATABASE_URL": url, "LOOM_PATHS": "", "LOOMSVC_DATA": str(tmp_path / "target")}
        target = services.up(tmp_path / "target", **there)
        assert told("mirror_inspect", "--from", str(folder), **there)["verification"]["status"] == "verified"
        plan = told("mirror_restore", "--from", str(file), "--dry-run", **there)
        done = told("mirror_restore", "--from", str(file), **there)
        assert (plan["applied"], done["applied"], done["plan"]) == (False, True, plan["plan"])
        place = target.rest("/api/v1/artifacts?loomName=trial&stageName=work")["artifacts"]["data"][0]
        revisions = target.rest(f"/api/v1/artifacts/{place['artifactId']}/revisions")["revisions"]
        assert [(one["digest"], json_text.digest(one["data"])) for one in revisions] == [
            (artifacts[-1]["digest"], artifacts[-1]["digest"])
        ]
        assert target.rest("/api/v1/records/first")["record"]["data"] == {"index": 0}
        run_path, seen = f"/api/v1/runs/{done['runId']}", {"expectedRevision": done["run"]["revision"]}
        with pytest.raises(urllib.error.HTTPError) as refused:
            operate(target, f"{run_path}/resume", **seen)
        assert (refused.value.code, b"release_trust" in refused.value.read()) == (409, True)
        told("release_trust", run["releaseDigest"], **there)
        assert operate(target, f"{run_path}/resume", **seen)["receipt"]["status"] == "accepted"
        action = target.until(done["runId"], "waiting")["pendingAction"]["id"]
        answer = [{"questionId": "q", "isSkipped": False, "answer": "yes"}]
        operate(target, f"{run_path}/actions/{action}/answer", answer=answer)
        ended = target.until(done["runId"], "completed")
        assert (ended["outcome"], ended["boundary"], ended["traceId"]) == ("done", 4, run["traceId"])
        target.rest("/api/v1/mirrors", {"traceId": run["traceId"], "targetProject": "default"})
        verified = told("mirror_verify", "--all", **there)
        assert (len(verified["mirrors"]), verified["damaged"]) == (2, 0)
        target.stop()


@pytest.mark.timeout(300)
@pytest.mark.rule("M5", "F26")
def test_a_restore_that_is_killed_leaves_nothing_and_is_done_again(services: Services, tmp_path: Path) -> None:
    up = services.up(tmp_path / "data")
    run = up.until(up.start("trial", PLAN), "waiting")
    mirror = up.rest("/api/v1/mirrors", {"traceId": run["traceId"], "targetProject": "default"})["mirror"]
    killed = up.command("mirror_restore", mirror["mirrorId"], LOOMSVC_FAILPOINT="in_mirror_restore:kill")
    assert killed.returncode == -signal.SIGKILL
    assert [one["runId"] for one in up.rest("/api/v1/runs")["runs"]] == [run["runId"]]
    done = up.rest(f"/api/v1/mirrors/{mirror['mirrorId']}/restore", {"targetProject": "default", "scope": "all"})
    assert {entry["kind"]: entry["action"] for entry in done["plan"]} == {
        "artifact": "unchanged", "record": "unchanged", "release": "unchanged", "run": "create",
    }  # fmt: skip
    assert (done["applied"], done["run"]["status"]) == (True, "paused")


@pytest.mark.timeout(300)
@pytest.mark.rule("M1", "K21")
def test_a_long_trace_is_streamed_both_ways(tmp_path: Path) -> None:
    script = Path(__file__).with_name("mirror_streaming.py")
    done = subprocess.run(
        [sys.executable, str(script)],
        cwd=ROOT,
        env=environment(
            LOOMSVC_DATA=str(tmp_path / "data"),
            DJANGO_SETTINGS_MODULE="loomsvc.settings.test",
            PYTHONPATH=str(ROOT),
        ),
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr
    spent = json.loads(done.stdout)
    assert spent["bytes"] > 60_000_000
    for what in ("export", "inspect", "restore"):
        assert spent[what] < 64, spent


@pytest.mark.rule("M1", "M3")
def test_mirrors_are_kept_in_a_bucket(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import boto3
    from moto.server import ThreadedMotoServer

    from apps.core import clock, conf
    from apps.mirrors import storage

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.setenv(name, "testing")
        monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        monkeypatch.setenv("LOOMSVC_MIRRORS_BUCKET", "kept")
        monkeypatch.setenv("LOOMSVC_MIRRORS_ENDPOINT", f"http://{host}:{port}")
        boto3.client("s3", endpoint_url=f"http://{host}:{port}").create_bucket(Bucket="kept")
        settings.STORAGES = {**settings.STORAGES, "mirrors": conf.mirror_storage(Path("unused"))}
        digest, data = "ab" * 32, os.urandom(300_000)
        assert list(storage.stored_digests()) == []
        with pytest.raises(FileNotFoundError), storage.opened(digest):
            pass
        for _ in range(2):
            storage.keep(digest, io.BytesIO(data))
        with storage.opened(digest) as (file, size):
            file.seek(-22, os.SEEK_END)
            assert (size, file.read()) == (len(data), data[-22:])
        assert list(storage.stored_digests()) == [digest]
        assert storage.age_of(digest, clock.now()).total_seconds() < 60
        storage.discard(digest)
        assert list(storage.stored_digests()) == []
    finally:
        server.stop()
