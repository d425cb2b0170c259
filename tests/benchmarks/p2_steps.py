"""P2 and P4: one worker that takes Steps one by one, against *raw*, and what each Step asks of the database."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial

from tests.benchmarks import raw, servers
from tests.benchmarks.rows import Database, Goal, Round, Row, measure
from tests.benchmarks.servers import Program

NUMBERS = ("P2", "P4")
RATE = Goal("P2", 0.4)
STATEMENTS, COMMITS, COMMITS_OF_A_RUN = (Goal("P4", bound, at_most=True) for bound in (1, 1, 6))
RUNS, STEPS = 20, 5
ROUNDS = 5


def rows(databases: list[Database]) -> Iterator[Row]:
    """The rate on each database, and the counts, which are the same in each round."""
    for database in databases:
        with servers.ledger(database.url) as url, servers.program(url, "steps_one_by_one") as worker:
            rate = partial(_rate, worker, database.url)
            yield measure(RATE, "Steps one by one, against raw", database, "/s", rate, ROUNDS)
            for goal, what, part, count, of in (
                (STATEMENTS, "statements of a Step", "working", "statements", RUNS * STEPS),
                (COMMITS, "commits of a Step", "working", "commits", RUNS * STEPS),
                (COMMITS_OF_A_RUN, f"commits of a Run of {STEPS}, its admission too", "", "commits", RUNS),
            ):
                yield measure(goal, what, database, "", partial(_count, worker, part, count, of), rounds=1)


def _rate(worker: Program, database_url: str) -> Round:
    seconds = float(json.loads(worker.ask(str(RUNS)))["seconds"])
    return Round(RUNS * STEPS / seconds, raw.per_second(database_url))


def _count(worker: Program, part: str, count: str, of: int) -> Round:
    said = json.loads(worker.ask(str(RUNS)))
    parts = [part] if part else ["admitting", "working"]
    return Round(sum(said[each][count] for each in parts) / of, 1)
