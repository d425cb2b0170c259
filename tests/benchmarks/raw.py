"""*raw*: how many single-row INSERTs, each with its COMMIT, one connection does in a second."""

from __future__ import annotations

import sqlite3
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import psycopg

_ROW = "x" * 100
SECONDS = 1.0


def per_second(database_url: str, seconds: float = SECONDS) -> float:
    """*raw* of the database that ``database_url`` names; an empty one is SQLite, journal WAL, synchronous FULL."""
    return _on_postgresql(database_url, seconds) if database_url else _on_sqlite(seconds)


def _on_postgresql(url: str, seconds: float) -> float:
    with psycopg.connect(url, autocommit=True, prepare_threshold=0) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS bench_raw (id bigserial PRIMARY KEY, data text NOT NULL)")
        try:
            return _count(lambda: connection.execute("INSERT INTO bench_raw (data) VALUES (%s)", [_ROW]), seconds)
        finally:
            connection.execute("DROP TABLE bench_raw")


def _on_sqlite(seconds: float) -> float:
    with tempfile.TemporaryDirectory() as folder:
        connection = sqlite3.connect(Path(folder) / "raw.sqlite3", isolation_level=None)
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=FULL")
            connection.execute("CREATE TABLE bench_raw (id INTEGER PRIMARY KEY, data TEXT NOT NULL)")
            return _count(lambda: connection.execute("INSERT INTO bench_raw (data) VALUES (?)", [_ROW]), seconds)
        finally:
            connection.close()


def _count(insert: Callable[[], object], seconds: float) -> float:
    for _ in range(20):
        insert()
    number, began = 0, time.perf_counter()
    while (took := time.perf_counter() - began) < seconds:
        insert()
        number += 1
    return number / took
