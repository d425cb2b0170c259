"""F16: a service whose disk fills up, and has room again.

The disk is full for this process alone: past ``RLIMIT_FSIZE`` the kernel refuses its writes, as it does on a full
disk.  What was answered before must be there afterwards, and what was refused must not.
"""

# ruff: noqa: F811 - the fixture comes from local_service
from __future__ import annotations

import json
import resource
import sqlite3
import time
import urllib.error
import uuid
from pathlib import Path
from typing import Any

import pytest
from local_service import Services, Up, services  # noqa: F401

#: Far less than a new ledger has.
FULL = 128 * 1024


def leave_room(up: Up, room: int) -> None:
    _, most = resource.prlimit(up.process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(up.process.pid, resource.RLIMIT_FSIZE, (room, most))


def refusal(up: Up, path: str, body: dict[str, Any]) -> dict[str, Any]:
    with pytest.raises(urllib.error.HTTPError) as caught:
        up.rest(path, body)
    assert (caught.value.code, int(caught.value.headers["Retry-After"]) <= 10) == (503, True)
    found: dict[str, Any] = json.load(caught.value)
    return found


@pytest.mark.rule("F16", "O3", "R6")
def test_a_full_disk_refuses_what_it_cannot_keep_and_goes_on_when_there_is_room(
    services: Services, tmp_path: Path
) -> None:
    up = services.up(tmp_path / "data")
    effects = tmp_path / "effects"
    kept = up.start("trial", {"do": [{"artifact": "kept"}]})
    assert up.until(kept, "completed")
    over = tmp_path / "over"
    flying = up.start("trial", {"do": [{"until": str(over)}], "effects": str(effects)})
    up.until(flying, "running")
    instance = up.events[-1]["serviceInstanceId"]
    wanted = {"loomName": "trial", "input": {"do": []}, "operationId": str(uuid.uuid4()), "serviceInstanceId": instance}

    leave_room(up, FULL)
    try:
        told = refusal(up, "/api/v1/runs", wanted)
        assert (told["code"], told["retryable"]) == ("UNAVAILABLE", True)
        assert told["detail"] == "The disk that the ledger is on is full; try again once its operator has made room."
        assert up.run(kept)["status"] == "completed", "what was kept is read all the while"
        over.touch()
        ends = time.monotonic() + 1
        while time.monotonic() < ends:
            assert up.run(flying)["status"] == "running", "its result has no room yet"
        assert refusal(up, "/api/v1/runs", wanted)["code"] == "UNAVAILABLE"
    finally:
        leave_room(up, resource.RLIM_INFINITY)

    again = up.rest("/api/v1/runs", wanted)
    assert again["receipt"]["status"] == "accepted"
    assert up.until(again["run"]["runId"], "completed")
    assert up.until(flying, "completed", seconds=60)
    attempts = up.rest(f"/api/v1/runs/{flying}/attempts")["attempts"]
    assert [one["status"] for one in attempts] == ["completed"] * len(attempts)
    assert len(effects.read_text().splitlines()) == 1
    assert len(up.rest("/api/v1/runs?limit=10")["runs"]) == 3
    assert up.stop()[0] == 0
    with sqlite3.connect(tmp_path / "data" / "ledger.sqlite3") as ledger:
        assert ledger.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
