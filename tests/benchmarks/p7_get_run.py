"""P7: an authenticated ``get_run`` over MCP against a Tool that does nothing at a server that asks nobody who they are.

Both are one uvicorn process; 8 clients keep their connections and ask again as soon as they are answered.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial

from tests.benchmarks import mcp_calls, peers, servers
from tests.benchmarks.load import Connection, answers_per_second
from tests.benchmarks.rows import Database, Goal, Round, Row, measure
from tests.benchmarks.servers import Server

NUMBERS = ("P7",)
GOAL = Goal("P7", 0.5)
CLIENTS = 8
SECONDS = 1.0
#: What the bare server's Tool is asked for; it looks for nothing.
_ANY_RUN = {"runId": "0198c1f2-7c7e-7000-8000-000000000000"}
_MCP = "mcp==2.3.0"


def rows(databases: list[Database]) -> Iterator[Row]:
    """Both eras on each database."""
    python = peers.python_with("mcp", _MCP, *peers.same("uvicorn", "h11"))
    for database in databases:
        with ExitStack() as stack:
            url = stack.enter_context(servers.ledger(database.url))
            ours = stack.enter_context(servers.loomsvc(url, "runs_to_read"))
            bare = stack.enter_context(servers.uvicorn(python, "bare_mcp:application", servers.PROGRAMS))
            for era in mcp_calls.ERAS:
                token = ours.tokens["agent_ide"]
                our_clients = mcp_calls.callers(ours.port, era, "get_run", ours.known, token=token, number=CLIENTS)
                their_clients = mcp_calls.callers(bare.port, era, "get_run", _ANY_RUN, number=CLIENTS)
                take = partial(_round, (ours, our_clients), (bare, their_clients))
                yield measure(GOAL, f"get_run, {era}, {CLIENTS} clients", database, "/s", take)
                for connection in (*our_clients, *their_clients):
                    connection.close()


#: A server, and the connections to it with what each asks.
_Asked = tuple[Server, dict[Connection, bytes]]


def _round(ours: _Asked, theirs: _Asked) -> Round:
    our_rate, our_cost = _seen(*ours)
    their_rate, their_cost = _seen(*theirs)
    return Round(our_rate, their_rate, (("× by processor time", their_cost / our_cost),))


def _seen(server: Server, clients: dict[Connection, bytes]) -> tuple[float, float]:
    """Answers a second, and seconds of the web process's processor time for each."""
    before = server.cpu_seconds()
    rate = answers_per_second(clients, SECONDS)
    return rate, (server.cpu_seconds() - before) / (rate * SECONDS)
