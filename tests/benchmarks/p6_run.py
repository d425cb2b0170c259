"""P6: admitting a Run over MCP against one commit, and asking again with a known operationId against ``SELECT 1``.

One client, one request at a time, at a web process beside which no worker runs; medians of each round.
"""

from __future__ import annotations

import statistics
import time
import uuid
from collections.abc import Callable, Iterator
from functools import partial

from tests.benchmarks import raw, servers
from tests.benchmarks.load import Connection
from tests.benchmarks.mcp_calls import call_of, structured
from tests.benchmarks.rows import Database, Goal, Round, Row, measure
from tests.benchmarks.servers import Server

NUMBERS = ("P6",)
ADMISSION, REPLAY = Goal("P6", 8, at_most=True), Goal("P6", 5, at_most=True)
CALLS = 40
ROUNDS = 5


def rows(databases: list[Database]) -> Iterator[Row]:
    """The admission and the replay on each database."""
    for database in databases:
        with (
            servers.ledger(database.url) as url,
            servers.loomsvc(url, "operations", LOOM_PATHS=str(servers.LOOMS)) as server,
        ):
            known = str(uuid.uuid4())
            for what, goal, next_id, of_commit in (
                ("run, p50", ADMISSION, lambda: str(uuid.uuid4()), True),
                ("run again, p50", REPLAY, lambda known=known: known, False),
            ):
                take = partial(_round, server, database.url, next_id, of_commit=of_commit)
                beside = "commit" if of_commit else "SELECT 1"
                yield measure(goal, f"{what}, against {beside}", database, "µs", take, ROUNDS)


def _round(server: Server, database_url: str, next_id: Callable[[], str], *, of_commit: bool) -> Round:
    commit, select = raw.typical_seconds(database_url)
    connection = Connection(server.port)
    times = []
    for _ in range(CALLS):
        identity = {"operationId": next_id(), **server.known}
        request = call_of(
            server.port, "run", {"loomName": "ticks", "input": None, **identity}, token=server.tokens["agent_ide"]
        )
        began = time.perf_counter()
        answer = connection.post(request)
        times.append(time.perf_counter() - began)
        structured(answer)
    connection.close()
    return Round(1e6 * statistics.median(times), 1e6 * (commit if of_commit else select))
