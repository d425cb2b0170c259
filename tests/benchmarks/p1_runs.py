"""P1: Runs of five Steps that do nothing, from admission to result, against workflows of DBOS that do the same.

Ours is the whole product, ``loomsvc up``: 8 MCP clients start the Runs, each with a receipt, and one asks
``status`` until none is open.  DBOS is a program that starts its workflows itself and waits for their results.
"""

from __future__ import annotations

import contextlib
import tempfile
import time
import uuid
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from tests.benchmarks import peers, servers
from tests.benchmarks.load import Answer, Connection, answers_to
from tests.benchmarks.mcp_calls import call_of, structured
from tests.benchmarks.rows import Database, Goal, Round, Row, measure
from tests.benchmarks.servers import Program, Server

NUMBERS = ("P1",)
GOALS = {"PostgreSQL": Goal("P1", 10), "SQLite": Goal("P1", 12)}
RUNS, STEPS, CLIENTS = 40, 5, 8
#: A round takes seconds, so fewer do.
ROUNDS = 3
_DBOS = "dbos==3.4.0"
_LOOK_SECONDS = 0.02


def rows(databases: list[Database]) -> Iterator[Row]:
    """One row on each database."""
    python = peers.python_with("dbos", _DBOS)
    for database in databases:
        with (
            servers.ledger(database.url) as url,
            servers.up(url) as ours,
            _dbos(python, database.url) as theirs,
        ):
            what = f"{RUNS} Runs of {STEPS} Steps"
            yield measure(GOALS[database.name], what, database, "Steps/s", partial(_round, ours, theirs), ROUNDS)


@contextlib.contextmanager
def _dbos(python: Path, server_url: str) -> Iterator[Program]:
    with servers.ledger(server_url) as url, tempfile.TemporaryDirectory() as folder:
        where = url or f"sqlite:///{folder}/dbos.sqlite"
        with servers.asked([python, servers.PROGRAMS / "dbos_ticks.py", where], Path(folder)) as found:
            yield found


def _round(ours: Server, theirs: Program) -> Round:
    # Anew in each round: while DBOS works, an idle connection would be closed.
    connections = [Connection(ours.port) for _ in range(CLIENTS)]
    our_seconds = _our_seconds(ours, connections)
    for connection in connections:
        connection.close()
    return Round(RUNS * STEPS / our_seconds, RUNS * STEPS / float(theirs.ask(str(RUNS))))


def _our_seconds(server: Server, connections: list[Connection]) -> float:
    """From the first request to the moment at which no Run is open; every Run must have completed."""
    call = partial(call_of, server.port, token=server.tokens["agent_ide"])
    starts = [call("run", _plan(server)) for _ in range(RUNS)]
    began = time.perf_counter()
    started = [structured(answer)["run"]["runId"] for answer in answers_to(starts, connections)]
    while any(_open_counts(connections[0].post(call("status", {})))):
        time.sleep(_LOOK_SECONDS)
    took = time.perf_counter() - began
    for run_id in started:
        run = structured(connections[0].post(call("get_run", {"runId": run_id})))["run"]
        if run["status"] != "completed":
            raise RuntimeError(f"a Run ended as {run['status']}: {run}")
    return took


def _plan(server: Server) -> dict[str, object]:
    return {"loomName": "ticks", "input": None, "operationId": str(uuid.uuid4()), **server.known}


def _open_counts(answer: Answer) -> list[int]:
    counts = structured(answer)["service"]["counts"]
    return [counts[status] for status in ("queued", "running", "waiting", "paused")]
