"""A small reference of what Runs and Operations must do, written from the rules and not from the engine.

It knows the test Loom ``trial`` (``tests/looms/trial``) and predicts, for any order of operations,
leases, landings, lost workers and restarts, the view of each Run down to its revision.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

TERMINAL = ("completed", "failed", "cancelled")
ROUTES = {
    ("work", "act"): {"again": "act", "other": "rerunnable", "leave": "end", "done": "end"},
    ("work", "rerunnable"): {"again": "act", "other": "rerunnable", "leave": "end", "done": "end"},
    ("wrap", "close"): {"done": "end"},
}
STAGE_ROUTES = {"work": {"leave": "wrap", "done": "end"}, "wrap": {"done": "end"}}
ENTRIES = {"work": "act", "wrap": "close"}
MAX_VISITS = {"act": 6, "rerunnable": 1000, "close": 1000}
RETRIES = {"act": 3, "rerunnable": 1, "close": 1}
#: Attempts that lost workers may cost in all (R12, R13).
INTERRUPTIONS = {"act": 1, "rerunnable": 3, "close": 1}


@dataclass
class Segment:
    """A result in a worker's hands: what the Code did with what it was given."""

    token: int
    ending: str
    index: int
    error: str | None = None


@dataclass
class ReferenceRun:
    """One Run as the rules have it."""

    plan: list[dict[str, Any]]
    status: str = "queued"
    revision: int = 1
    pause_requested: bool = False
    stage: str = "work"
    step: str = "act"
    visit: int = 1
    kind: str = "initialize"
    attempts: int = 0
    index: int = 0
    boundary: int = 0
    outcome: str | None = None
    error: str | None = None
    saved: str | None = None
    asks: str | None = None
    ended_in: int | None = None
    token: int | None = None
    visits: dict[str, int] = field(default_factory=lambda: {"work/act": 1})
    attempt_statuses: list[str] = field(default_factory=list)

    # -- what workers do

    def dispatch(self, token: int) -> None:
        assert self.status == "queued"
        self.status, self.token = "running", token
        self.revision += 1

    def execute(self) -> Segment:
        """What the Code of the segment that runs will say."""
        assert self.token is not None
        if self.kind == "initialize":
            return Segment(self.token, "initialized", 0)
        if self.stage == "wrap":
            return Segment(self.token, "done", self.index + 1)
        do = self.plan[self.index] if self.index < len(self.plan) else {"ending": "done", "failures": 0}
        if self.kind == "step" and self.attempts + 1 <= do["failures"]:
            return Segment(self.token, "raise", self.index, do["error"])
        return Segment(self.token, do["ending"], self.index + 1)

    def land(self, segment: Segment, *, keep: bool, instance: int) -> bool:
        """Whether the result is taken."""
        if self.status != "running" or self.token != segment.token:
            return False
        self.revision += 1
        if segment.ending == "raise":
            self._fail_segment(segment, instance)
        elif self.kind == "initialize":
            self.attempt_statuses.append("completed")
            self.kind, self.attempts, self.index = "step", 0, 0
            self._queue(keep)
        elif self.kind == "step" and segment.ending in ("ask", "confirm"):
            self.attempt_statuses.append("waited")
            self.index = segment.index
            self.kind, self.attempts = "continuation", 0
            self.status, self.token, self.asks = "waiting", None, segment.ending
        elif segment.ending not in ROUTES[self.stage, self.step]:
            self.attempt_statuses.append("failed")
            self._end("failed", instance, error="STEP_OUTCOME_NOT_HANDLED")
        else:
            self.attempt_statuses.append("completed")
            self.index = segment.index
            self.boundary += 1
            if self.pause_requested:
                self.saved = segment.ending
                self.status, self.token, self.pause_requested = "paused", None, False
            else:
                self._route(segment.ending, keep, instance)
        return True

    def _fail_segment(self, segment: Segment, instance: int) -> None:
        self.attempt_statuses.append("failed")
        retryable = segment.error == "ConnectionError" and self.kind == "step"
        if retryable and self.attempts + 1 < RETRIES[self.step]:
            self.attempts += 1
            self._queue(keep=False)
        else:
            self._end("failed", instance, error="STEP_FAILED")

    def _route(self, outcome: str, keep: bool, instance: int) -> None:
        self.saved = None
        to = ROUTES[self.stage, self.step][outcome]
        stage = self.stage
        if to == "end":
            stage = STAGE_ROUTES[self.stage][outcome]
            if stage == "end":
                self.outcome = outcome
                self._end("completed", instance)
                return
            to = ENTRIES[stage]
        visit = self.visits.get(f"{stage}/{to}", 0) + 1
        if visit > MAX_VISITS[to]:
            self._end("failed", instance, error="LOOP_LIMIT")
            return
        entered = stage != self.stage
        self.visits[f"{stage}/{to}"] = visit
        self.stage, self.step, self.visit, self.attempts = stage, to, visit, 0
        self.kind = "initialize" if entered else "step"
        self._queue(keep)

    def _queue(self, keep: bool) -> None:
        if keep:
            self.status = "running"
        else:
            self.status, self.token = "queued", None

    def _end(self, status: str, instance: int, error: str | None = None) -> None:
        self.status, self.token, self.pause_requested, self.asks = status, None, False, None
        self.error = error or self.error
        self.ended_in = instance

    def lose_worker(self, instance: int) -> None:
        """Its lease ran out, or the service was started anew."""
        assert self.status == "running"
        self.revision += 1
        self.attempt_statuses.append("indeterminate")
        limit = 3 if self.kind == "initialize" else INTERRUPTIONS[self.step]
        if self.attempts + 1 < limit:
            self.attempts += 1
            self._queue(keep=False)
        else:
            self._end("failed", instance, error="RUN_INTERRUPTED")

    # -- what callers do: the code of the refusal, or the receipt's effect

    def _refusal(self, instance: int, *, of_terminal: bool) -> str | None:
        if self.status in TERMINAL and (of_terminal or self.ended_in != instance):
            return "CONFLICT"
        return None

    def pause(self, instance: int) -> str:
        if refusal := self._refusal(instance, of_terminal=True):
            return refusal
        if self.status == "paused" or self.pause_requested:
            return "none"
        self.revision += 1
        if self.status == "queued" and self.kind != "continuation" and self.attempts == 0:
            self.status = "paused"
        else:
            self.pause_requested = True
        return "applied"

    def resume(self, instance: int, expected: int, *, one_step: bool) -> str:
        if self._refusal(instance, of_terminal=True) or self.status != "paused" or expected != self.revision:
            return "CONFLICT"
        self.revision += 1
        self.error = None
        if self.saved is None:
            self._queue(keep=False)
        else:
            self._route(self.saved, False, instance)
        self.pause_requested = one_step and self.status == "queued"
        return "applied"

    def cancel(self, instance: int) -> str:
        if refusal := self._refusal(instance, of_terminal=False):
            return refusal
        if self.status in TERMINAL:
            return "none"
        if self.status == "running":
            self.attempt_statuses.append("cancelled")
        self.revision += 1
        self._end("cancelled", instance)
        return "applied"

    def answer(self, instance: int, *, stale: bool) -> str:
        if self._refusal(instance, of_terminal=True) or self.asks is None or stale:
            return "CONFLICT"
        self.revision += 1
        self.asks = None
        self._queue(keep=False)
        return "applied"
