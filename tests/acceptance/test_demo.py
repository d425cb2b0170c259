"""``make demo``: what a newcomer sees first."""

# ruff: noqa: F811 - the fixture comes from local_service
from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from local_service import ROOT, Services, environment, interruptible, loomsvc, services  # noqa: F401


@pytest.fixture
def subject(tmp_path: Path) -> Path:
    """A folder with two equal files and a bigger one."""
    folder = tmp_path / "subject"
    (folder / "inner").mkdir(parents=True)
    (folder / "a.txt").write_text("the same words")
    (folder / "inner" / "b.txt").write_text("the same words")
    (folder / "big.bin").write_bytes(b"x" * 5000)
    return folder


def kept_folder(shown: str) -> Path:
    found = re.search(r"up --data (\S+)", shown)
    assert found, shown
    return Path(found[1])


def test_the_demo_completes_and_leaves_a_ledger_that_goes_on(subject: Path, services: Services) -> None:
    done = loomsvc("demo", str(subject), timeout=100)
    assert done.returncode == 0, done.stdout + done.stderr
    folder = kept_folder(done.stdout)
    try:
        for part in (
            "✓ completed",
            "survey/hash",
            "█",
            "big.bin",
            "2 × a.txt",
            "/admin/",
            "docs/tutorial/first-loom.md",
        ):
            assert part in done.stdout
        up = services.up(folder)
        # The operator was made and shown by the demo; a further start shows no password again.
        assert [event["event"] for event in up.events] == ["ready"]
        token = up.connection["entries"]["agent_ide"]["token"]
        assert token not in done.stdout + done.stderr
        (listed,) = up.rest("/api/v1/artifacts?loomName=inventory")["artifacts"]["data"]
        report = up.rest(f"/api/v1/artifacts/{listed['artifactId']}")["artifact"]["data"]
        assert (report["files"], report["bytes"], report["wasted_bytes"]) == (3, 5028, 14)
        assert [group["paths"] for group in report["duplicates"]] == [["a.txt", "inner/b.txt"]]
        assert report["large"][0]["path"] == "big.bin"
        (run,) = up.rest("/api/v1/runs")["runs"]
        assert run["status"] == "completed"
        assert run["execution"] == {"source": "agent_ide", "agentExecutor": "mcp_client"}
    finally:
        shutil.rmtree(folder)


def test_the_demo_fails_when_its_run_cannot_complete(subject: Path, tmp_path: Path) -> None:
    done = loomsvc("demo", str(subject), timeout=100, LOOM_INVENTORY_ROOTS=str(tmp_path / "elsewhere"))
    shutil.rmtree(kept_folder(done.stdout))
    assert done.returncode == 1
    assert "✗ failed" in done.stdout
    assert "LOOM_INVENTORY_ROOTS" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr


def test_the_demo_refuses_what_is_no_folder(tmp_path: Path) -> None:
    refused = loomsvc("demo", str(tmp_path / "none"), "--data", str(tmp_path / "data"))
    assert refused.returncode == 1
    assert "is no folder" in refused.stderr


def test_ctrl_c_ends_the_demo_and_its_service(subject: Path, tmp_path: Path) -> None:
    demo = subprocess.Popen(
        [sys.executable, "manage.py", "demo", str(subject), "--data", str(tmp_path / "data")],
        cwd=ROOT, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        preexec_fn=interruptible,
    )  # fmt: skip
    assert demo.stdout is not None
    next(line for line in demo.stdout if line.startswith("Ready at"))
    os.killpg(demo.pid, signal.SIGINT)
    _, err = demo.communicate(timeout=30)
    assert demo.returncode in (130, 0)  # 0: it had finished already
    assert "Traceback" not in err
    deadline = time.monotonic() + 5
    while group_lives(demo.pid):
        assert time.monotonic() < deadline
        time.sleep(0.1)


def group_lives(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
