"""F17: somebody reads an embedded ledger for long, so that its write-ahead log cannot be emptied."""

# ruff: noqa: F811 - the fixture comes from local_service
from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from local_service import Services, Up, services  # noqa: F401

from apps.core.databases import MAX_LOG_BYTES

SAID = "something has been reading the ledger for so long"


def write(up: Up) -> None:
    up.until(up.start("trial", {"do": [{"artifact": "x" * 900_000}]}), "completed")


@pytest.mark.rule("F17")
def test_a_reader_that_stays_lets_the_log_grow_which_is_said_and_it_shrinks_when_it_has_gone(
    services: Services, tmp_path: Path
) -> None:
    up = services.up(tmp_path / "data")
    log = tmp_path / "data" / "ledger.sqlite3-wal"
    reader = sqlite3.connect(tmp_path / "data" / "ledger.sqlite3", isolation_level=None)
    try:
        reader.execute("BEGIN")
        (before,) = reader.execute("SELECT count(*) FROM runs_run").fetchone()
        while log.stat().st_size <= 2 * MAX_LOG_BYTES:
            write(up)
        assert reader.execute("SELECT count(*) FROM runs_run").fetchone() == (before,)
        assert SAID in up.command("doctor").stdout
    finally:
        reader.close()
    write(up)
    write(up)
    assert log.stat().st_size <= MAX_LOG_BYTES
    told = up.command("doctor").stdout
    assert SAID not in told
    assert "The ledger's write-ahead log has" in told
