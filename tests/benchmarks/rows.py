"""The frame of every row: rounds of ours beside the peer's, *raw* before and after, and the table.

Times mean little on a machine that others use too, and ratios of the same moment mean more: each round
measures both sides one after the other, and a row shows the median of the rounds' ratios with the least and
the greatest.  A row reaches its goal, or does not; nothing fails for that.
"""

from __future__ import annotations

import os
import statistics
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tests.benchmarks import raw

ROUNDS = 7


@dataclass(frozen=True)
class Database:
    """A ledger's home; ``url`` names a PostgreSQL server, empty is SQLite with synchronous FULL."""

    name: str
    url: str


@dataclass(frozen=True)
class Goal:
    """What a ratio is to be: at least or at most ``bound``."""

    number: str
    bound: float
    at_most: bool = False

    def is_reached(self, ratio: float) -> bool:
        return ratio <= self.bound if self.at_most else ratio >= self.bound

    def __str__(self) -> str:
        return f"{'≤' if self.at_most else '≥'} {self.bound:g} ×"


@dataclass(frozen=True)
class Round:
    """What one round saw of both sides, in ``unit``; ``aside`` are further numbers by name."""

    ours: float
    theirs: float
    aside: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    goal: Goal
    what: str
    database: str
    unit: str
    rounds: tuple[Round, ...]
    raw_before: float
    raw_after: float
    load: float

    @property
    def ratios(self) -> list[float]:
        return [each.ours / each.theirs for each in self.rounds]

    @property
    def ratio(self) -> float:
        return statistics.median(self.ratios)

    def cells(self) -> list[str]:
        """What the table shows, in the order of :data:`COLUMNS`."""
        ours, theirs = (statistics.median(getattr(each, side) for each in self.rounds) for side in ("ours", "theirs"))
        names = [name for name, _ in self.rounds[0].aside]
        aside = [f"{name} {statistics.median(dict(each.aside)[name] for each in self.rounds):.2f}" for name in names]
        return [
            self.goal.number,
            self.what,
            self.database,
            f"{_short(ours)} {self.unit}".strip(),
            f"{_short(theirs)} {self.unit}".strip(),
            _ratio(self.ratio),
            f"{_ratio(min(self.ratios))}–{_ratio(max(self.ratios))}",
            str(self.goal),
            "reached" if self.goal.is_reached(self.ratio) else "missed",
            f"{self.raw_before:,.0f} → {self.raw_after:,.0f}",
            f"{self.load:.1f}",
            ", ".join(aside),
        ]


def _ratio(value: float) -> str:
    return f"{value:.2f}" if value >= 0.1 else f"{value:.3f}"


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


COLUMNS = ("goal", "what", "on", "ours", "theirs", "ratio", "spread", "wanted", "", "raw/s", "load", "beside")


def measure(
    goal: Goal, what: str, database: Database, unit: str, take: Callable[[], Round], rounds: int = ROUNDS
) -> Row:
    """A row of ``rounds`` rounds, after one to warm up that does not count."""
    print(f"{goal.number} {what}, {database.name} …", file=sys.stderr, flush=True)
    before = raw.per_second(database.url)
    take()
    taken = tuple(take() for _ in range(rounds))
    return Row(goal, what, database.name, unit, taken, before, raw.per_second(database.url), os.getloadavg()[0])


def table(rows: Iterable[Row]) -> str:
    """Aligned text, one line for each row."""
    lines = [list(COLUMNS), *(row.cells() for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(COLUMNS))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )
