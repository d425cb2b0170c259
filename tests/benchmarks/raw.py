"""*raw*: how many single-row INSERTs, each with its COMMIT, one connection does in a second."""

from __future__ import annotations

import contextlib
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg

_ROW = "x" * 100
SECONDS = 1.0


def per_second(database_url: str, seconds: float = SECONDS) -> float:
    """*raw* of the database that ``database_url`` names; an empty one is SQLite, journal WAL, synchronous FULL."""
    with _statements(database_url) as (insert, _):
        return _count(insert, seconds)


def typical_seconds(database_url: str, number: int = 100) -> tuple[float, float]:
    """The median time of one such commit, and of ``SELECT 1``."""
    with _statements(database_url) as (insert, select):
        return _median(insert, number), _median(select, number)


@contextlib.contextmanager
def _statements(url: str) -> Iterator[tuple[Callable[[], object], Callable[[], object]]]:
    """An INSERT with its COMMIT, and a ``SELECT 1`` with its result, on one connection."""
    with _on_postgresql(url) if url else _on_sqlite() as statements:
        yield statements


@contextlib.contextmanager
def _on_postgresql(url: str) -> Iterator[tuple[Callable[[], object], Callable[[], object]]]:
    with psycopg.connect(url, autocommit=True, prepare_threshold=0) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS bench_raw (id bigserial PRIMARY KEY, data text NOT NULL)")
        try:
            yield (
                lambda: connection.execute("INSERT INTO bench_raw (data) VALUES (%s)", [_ROW]),
                lambda: connection.execute("SELECT 1").fetchone(),
            )
        finally:
            connection.execute("DROP TABLE bench_raw")


@contextlib.contextmanager
def _on_sqlite() -> Iterator[tuple[Callable[[], object], Callable[[], object]]]:
    with tempfile.TemporaryDirectory() as folder:
        connection = sqlite3.connect(Path(folder) / "raw.sqlite3", isolation_level=None)
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=FULL")
            connection.execute("CREATE TABLE bench_raw (id INTEGER PRIMARY KEY, data TEXT NOT NULL)")
            yield (
                lambda: connection.execute("INSERT INTO bench_raw (data) VALUES (?)", [_ROW]),
                lambda: connection.execute("SELECT 1").fetchone(),
            )
        finally:
            connection.close()


def _median(statement: Callable[[], object], number: int) -> float:
    times = []
    for _ in range(number):
        began = time.perf_counter()
        statement()
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def _count(insert: Callable[[], object], seconds: float) -> float:
    for _ in range(20):
        insert()
    number, began = 0, time.perf_counter()
    while (took := time.perf_counter() - began) < seconds:
        insert()
        number += 1
    return number / took
