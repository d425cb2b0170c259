"""How a Run stands, in a sentence: a truth table."""

from __future__ import annotations

import datetime as dt
import uuid
from typing import Any

import pytest

from apps.console.sentences import LOOKS, duration_text, sentence
from apps.runs.contracts import RunView
from apps.runs.domain.statuses import AttemptStatus, RunStatus
from apps.runs.selectors.details import RunDetail

NOW = dt.datetime(2026, 11, 30, 3, 0, tzinfo=dt.UTC)
ERROR = {"code": "STEP_FAILED", "message": "ValueError: no", "stage": "work", "step": "act", "attempt": 3}
ACTION = {"id": "a", "kind": "questions", "request": [], "onlyPerson": False, "createdAt": "x"}
AGAIN = {"stage": "a", "step": "b", "visit": 2}
CALL = {"id": "c", "agentId": "author", "phase": "available", "createdAt": "x"}


def detail(status: str, *, view: dict[str, Any] | None = None, **more: Any) -> RunDetail:
    members = {
        "runId": str(uuid.UUID(int=1)),
        "traceId": str(uuid.UUID(int=1)),
        "loomName": "trial",
        "releaseDigest": "0" * 64,
        "project": "default",
        "status": status,
        "revision": 1,
        "cursor": {"stage": "work", "step": "act", "visit": 1},
        "input": None,
        "execution": {"source": "cli", "agentExecutor": "service_model"},
        "pauseRequested": False,
        "results": {"artifactIds": [], "recordIds": []},
        "origin": None,
        "boundary": 0,
        "historical": False,
        "createdAt": "x",
        "updatedAt": "x",
        **(view or {}),
    }
    facts: dict[str, Any] = {
        "due_at": NOW,
        "is_retry": False,
        "worker": "w/1",
        "is_left": False,
        "segment_started_at": NOW,
        "is_saved": False,
        "attempts": 0,
        "state": None,
    }
    return RunDetail(
        view=RunView.model_validate(members, by_alias=True), project_id=uuid.UUID(int=2), **{**facts, **more}
    )


def minutes(number: float) -> dt.datetime:
    return NOW + dt.timedelta(minutes=number)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (detail("queued"), "work/act is due; a worker takes it next."),
        (detail("queued", due_at=minutes(-1)), "work/act is due; a worker takes it next."),
        (detail("queued", due_at=minutes(-2)), "no worker took it. Is a worker running?"),
        (detail("queued", due_at=minutes(5)), "work/act sleeps, and goes on at 2026-11-30 03:05:00."),
        (detail("queued", due_at=minutes(5), is_retry=True), "failed and is tried again at 2026-11-30 03:05:00."),
        (detail("queued", view={"pauseRequested": True}), "a worker takes it next. It rests after this Step."),
        (detail("running"), "Worker w/1 runs work/act since 2026-11-30 03:00:00."),
        (detail("running", view={"pauseRequested": True}), "It rests once this Step has saved its result."),
        (detail("running", is_left=True), "Worker w/1 went silent in work/act"),
        (detail("waiting", view={"pendingAction": ACTION}), "work/act waits for a person: answer below."),
        (
            detail("waiting", view={"pendingAction": {**ACTION, "onlyPerson": True}}),
            "waits for a person, and no agent may answer for them: answer below.",
        ),
        (detail("waiting", view={"pendingAgentCall": CALL}), "waits for an agent to claim it (author)"),
        (
            detail("waiting", view={"pendingAgentCall": {**CALL, "phase": "claimed"}}),
            "Agent author has claimed work/act and works on it.",
        ),
        (detail("paused"), "Rests before work/act. Resuming goes on with it."),
        (detail("paused", is_saved=True), "Rests after work/act, whose result is saved."),
        (
            detail("paused", view={"lastError": ERROR}),
            "Rests, for the service stopped it: STEP_FAILED in work/act, attempt 3: ValueError: no",
        ),
        (detail("completed", view={"outcome": "done"}), "Ended with outcome done."),
        (detail("failed", view={"lastError": ERROR}), "Failed: STEP_FAILED in work/act, attempt 3: ValueError: no"),
        (detail("failed"), "Failed: at work/act."),
        (
            detail("cancelled", view={"cursor": {"stage": "a", "step": "b", "visit": 2}}),
            "Was cancelled at a/b (visit 2).",
        ),
        (detail("cancelled", view={"historical": True}), "ended before the service was started anew"),
    ],
)
def test_a_sentence_says_how_a_run_stands_and_why(given: RunDetail, said: str) -> None:
    assert said in sentence(given, now=NOW)


def test_every_status_has_a_sign_of_its_own_beside_its_colour() -> None:
    statuses = [status.value for status in RunStatus]
    assert set(statuses) | {status.value for status in AttemptStatus} <= set(LOOKS)
    assert len({LOOKS[status] for status in statuses}) == len(statuses)
    assert len({LOOKS[status][1] for status in statuses}) == len(statuses)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-5, "0 s"), (0, "0 s"), (59, "59 s"), (119, "119 s"), (120, "2 min"), (7199, "119 min"), (7200, "2 h"),
     (172_799, "47 h"), (172_800, "2 d")],
)  # fmt: skip
def test_a_duration_has_one_unit(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text
