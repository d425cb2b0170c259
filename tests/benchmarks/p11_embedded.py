"""P11: what an embedded service that has nothing to do takes of a processor, and how soon it starts on its folder."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from functools import partial

from tests.benchmarks import servers
from tests.benchmarks.rows import Database, Goal, Round, Row, measure
from tests.benchmarks.servers import Server

NUMBERS = ("P11",)
#: Of one processor, and of one second.
IDLE, START = Goal("P11", 0.01, at_most=True), Goal("P11", 3, at_most=True)
SECONDS = 10.0
ROUNDS = 3


def rows(databases: list[Database]) -> Iterator[Row]:
    """Both on SQLite, which is what an embedded service has."""
    for database in databases:
        if not database.url:
            with tempfile.TemporaryDirectory() as folder:
                with servers.up("", folder) as server:
                    yield measure(IDLE, "idle, of a processor", database, "", partial(_idle, server), ROUNDS)
                yield measure(START, "start on an existing folder", database, "s", partial(_start, folder), ROUNDS)


def _idle(server: Server) -> Round:
    before, began = server.cpu_seconds(), time.perf_counter()
    time.sleep(SECONDS)
    return Round((server.cpu_seconds() - before) / (time.perf_counter() - began), 1)


def _start(folder: str) -> Round:
    began = time.perf_counter()
    with servers.up("", folder):
        return Round(time.perf_counter() - began, 1)
