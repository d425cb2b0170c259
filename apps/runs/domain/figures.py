"""Figures of many Runs: how they ended, and how long their Steps took."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Ending:
    """How many Runs stand or ended alike; ``share`` is of all that were counted, from 0 to 1."""

    status: str
    outcome: str | None
    runs: int
    share: float


@dataclass(frozen=True, slots=True)
class StepTimes:
    """Seconds that attempts at a Step took, by percentile; ``failed`` of ``attempts`` did not land."""

    stage: str
    step: str
    attempts: int
    failed: int
    queued_p50: float
    queued_p95: float
    ran_p50: float
    ran_p95: float
    longest: float


@dataclass(frozen=True, slots=True)
class TimedStep:
    """One ended attempt: seconds in the queue and running, never negative."""

    stage: str
    step: str
    queued: float
    ran: float
    is_failed: bool


def endings(runs: Iterable[tuple[str, str | None]]) -> list[Ending]:
    """Runs as (status, outcome), counted, the most frequent first."""
    counted = Counter(runs)
    whole = counted.total()
    ordered = sorted(counted.items(), key=lambda item: (-item[1], item[0][0], item[0][1] or ""))
    return [Ending(status, outcome, number, number / whole) for (status, outcome), number in ordered]


def step_times(attempts: Iterable[TimedStep]) -> list[StepTimes]:
    """Percentiles for each Step, those that took longest first."""
    groups: dict[tuple[str, str], list[TimedStep]] = defaultdict(list)
    for attempt in attempts:
        groups[attempt.stage, attempt.step].append(attempt)
    times = []
    for (stage, step), found in groups.items():
        queued, ran = sorted(each.queued for each in found), sorted(each.ran for each in found)
        times.append(
            StepTimes(
                stage=stage,
                step=step,
                attempts=len(found),
                failed=sum(each.is_failed for each in found),
                queued_p50=percentile(queued, 0.5),
                queued_p95=percentile(queued, 0.95),
                ran_p50=percentile(ran, 0.5),
                ran_p95=percentile(ran, 0.95),
                longest=ran[-1],
            )
        )
    return sorted(times, key=lambda each: (-each.ran_p95, each.stage, each.step))


def percentile(ordered: Sequence[float], share: float) -> float:
    """The smallest of the ``ordered`` values that at least ``share`` of them do not exceed (nearest rank)."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]
