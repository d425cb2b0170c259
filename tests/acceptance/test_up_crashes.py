"""F15: an embedded service that ends at any instant while it writes.

What its files hold at an instant is what a new process finds there after ``kill -9``: the frozen process's files are
copied, and the copies opened.  Now and then it is killed for good and started again.  Neither is a power cut, in which
the disk may lose what the kernel still had.
"""

# ruff: noqa: F811 - the fixture comes from local_service
from __future__ import annotations

import http.client
import os
import shutil
import signal
import sqlite3
import threading
import time
import uuid
from contextlib import closing
from pathlib import Path

import pytest
from local_service import Services, Up, services  # noqa: F401

from tests.chances import chance, rounds

#: Instants at which the files are looked at, and a kill after each so many of them.
INSTANTS, BETWEEN_KILLS = rounds(24), 8


class Writers:
    """Two clients that start Runs without a pause and remember which were acknowledged."""

    def __init__(self, up: Up) -> None:
        self.acknowledged: list[str] = []
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._write, args=(up,)) for _ in range(2)]
        for thread in self._threads:
            thread.start()

    def _write(self, up: Up) -> None:
        instance = up.events[-1]["serviceInstanceId"]
        while not self._over.is_set():
            wanted = {"operationId": str(uuid.uuid4()), "serviceInstanceId": instance, "loomName": "trial"}
            try:
                up.rest(
                    "/api/v1/runs", {**wanted, "input": {"do": [{"artifact": "x" * 2000, "record": str(uuid.uuid4())}]}}
                )
            except (OSError, http.client.HTTPException):
                return  # it was killed
            self.acknowledged.append(wanted["operationId"])

    def go_on(self) -> None:
        """Until one more Run was acknowledged."""
        seen, deadline = len(self.acknowledged), time.monotonic() + 30
        while len(self.acknowledged) == seen:
            assert time.monotonic() < deadline, "nothing is acknowledged"
            time.sleep(0.002)

    def end(self) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(30)


def frozen_copy(up: Up, to: Path) -> None:
    up.process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, up.process.pid, os.WSTOPPED)
    to.mkdir()
    for file in up.folder.glob("ledger.sqlite3*"):
        shutil.copy(file, to)


def check(folder: Path, acknowledged: list[str]) -> None:
    with closing(sqlite3.connect(folder / "ledger.sqlite3")) as ledger:
        assert ledger.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert ledger.execute("PRAGMA foreign_key_check").fetchall() == []
        accepted = ledger.execute(
            "SELECT o.operation_id FROM ledger_operation o JOIN runs_run r ON r.id = o.run_id "
            "WHERE o.kind = 'run' AND o.status = 'accepted'"
        )
        assert {uuid.UUID(name).hex for name in acknowledged} <= {name for (name,) in accepted}
        gaps = ledger.execute(
            "SELECT run_id FROM ledger_event GROUP BY run_id HAVING count(*) <> max(seq) OR min(seq) <> 1"
        )
        assert gaps.fetchall() == []


@pytest.mark.rule("F15", "O1")
@pytest.mark.timeout(120 + 5 * INSTANTS)
def test_whenever_it_ends_the_ledger_is_whole_and_has_all_that_was_acknowledged(
    services: Services, tmp_path: Path
) -> None:
    moments = chance("instants")
    up = services.up(tmp_path / "data")
    writers, before = Writers(up), list[str]()
    for number in range(1, INSTANTS + 1):
        writers.go_on()
        time.sleep(moments.uniform(0, 0.05))
        if number % BETWEEN_KILLS:
            known = [*before, *writers.acknowledged]
            frozen_copy(up, tmp_path / str(number))
            up.process.send_signal(signal.SIGCONT)
            check(tmp_path / str(number), known)
            shutil.rmtree(tmp_path / str(number))
            continue
        up.process.kill()
        up.process.wait()
        writers.end()
        before += writers.acknowledged
        check(up.folder, before)
        up = services.up(tmp_path / "data")
        writers = Writers(up)
    writers.end()
    assert up.stop()[0] == 0
    check(up.folder, [*before, *writers.acknowledged])
