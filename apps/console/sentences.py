"""How a Run stands, and why, in a sentence."""

from __future__ import annotations

import datetime as dt
import re

from apps.runs.contracts import RunView
from apps.runs.selectors.attention import OVERDUE_SECONDS
from apps.runs.selectors.details import RunDetail

#: Status → (what the badge looks like, its sign): the sign says without colour what the colour says.
LOOKS = {
    "queued": ("idle", "…"),
    "running": ("busy", "▶"),
    "waiting": ("wait", "?"),
    "paused": ("wait", "‖"),
    "completed": ("ok", "✓"),
    "succeeded": ("ok", "✓"),
    "failed": ("bad", "✗"),
    "cancelled": ("idle", "⊘"),
    # Of receipts, attempts and calls.
    "pending": ("idle", "…"),
    "accepted": ("ok", "✓"),
    "rejected": ("bad", "✗"),
    "indeterminate": ("bad", "?"),
    "waited": ("wait", "?"),
    "interrupted": ("bad", "✗"),
    "available": ("wait", "?"),
    "claimed": ("busy", "▶"),
}


def clock_text(moment: dt.datetime) -> str:
    """A moment to the second, UTC."""
    return moment.astimezone(dt.UTC).strftime("%Y-%m-%d %H:%M:%S")


def duration_text(seconds: float) -> str:
    """A stretch of time to one unit, at least two of it: ``90 s``, ``3 min``, ``5 h``, ``12 d``."""
    whole = max(0, int(seconds))
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if whole >= 2 * size:
            return f"{whole // size} {unit}"
    return f"{whole} s"


def for_people(message: str) -> str:
    """What the ledger tells a client, without the sentences that name its calls."""
    parts = re.split(r"(?<=\.) ", message)
    kept = [part for part in parts if "`" not in part]
    return " ".join(kept if len(kept) == len(parts) else [*kept, "Look at the Run as it is now."])


#: Where a Run was started, in words; the value stands beside it.
SOURCES = {
    "agent_ide": "by an agent in somebody's editor",
    "cli": "from the command line or by a program",
    "studio": "in a Studio, over REST",
    "console": "here in the console",
}


def sentence(detail: RunDetail, *, now: dt.datetime, may_answer: bool = True) -> str:
    """What an operator needs to know first; who may not answer is not told to."""
    view = detail.view
    told = _told(detail, now, may_answer)
    return f"{told} It ended before the service was started anew and can only be read." if view.historical else told


def _told(detail: RunDetail, now: dt.datetime, may_answer: bool) -> str:
    match detail.view.status:
        case "queued":
            return _queued(detail, now)
        case "running":
            return _running(detail)
        case "waiting":
            return _waiting(detail.view, may_answer)
        case "paused":
            return _paused(detail)
        case "completed":
            return f"Ended with outcome {detail.view.outcome}."
        case "failed":
            return f"Failed: {_error(detail.view)}"
        case "cancelled":
            return f"Was cancelled at {where(detail.view)}."


def where(view: RunView) -> str:
    """The Step at the cursor."""
    visit = f" (visit {view.cursor.visit})" if view.cursor.visit > 1 else ""
    return f"{view.cursor.stage}/{view.cursor.step}{visit}"


def _error(view: RunView) -> str:
    error = view.last_error
    if error is None:
        return f"at {where(view)}."
    return f"{error.code} in {error.stage}/{error.step}, attempt {error.attempt}: {error.message}"


def _queued(detail: RunDetail, now: dt.datetime) -> str:
    view, due = detail.view, detail.due_at or now
    then = " It rests after this Step." if view.pause_requested else ""
    if due > now + dt.timedelta(seconds=1):
        why = "failed and is tried again" if detail.is_retry else "sleeps, and goes on"
        return f"{where(view)} {why} at {clock_text(due)}.{then}"
    if now - due > dt.timedelta(seconds=OVERDUE_SECONDS):
        return f"{where(view)} is due since {clock_text(due)} and no worker took it. Is a worker running?"
    return f"{where(view)} is due; a worker takes it next.{then}"


def _running(detail: RunDetail) -> str:
    view, since = detail.view, detail.segment_started_at
    if detail.is_left:
        return (
            f"Worker {detail.worker} went silent in {where(view)}; the next sweep says what became of it. "
            "Is a sweep running?"
        )
    then = " It rests once this Step has saved its result." if view.pause_requested else ""
    began = f" since {clock_text(since)}" if since else ""
    return f"Worker {detail.worker} runs {where(view)}{began}.{then}"


def _waiting(view: RunView, may_answer: bool) -> str:
    then = " It rests after this Step." if view.pause_requested else ""
    if view.pending_action is not None:
        who = "a person, and no agent may answer for them" if view.pending_action.only_person else "a person"
        return f"{where(view)} waits for {who}{': answer below' if may_answer else ''}.{then}"
    call = view.pending_agent_call
    if call is not None and call.phase == "claimed":
        return f"Agent {call.agent_id} has claimed {where(view)} and works on it.{then}"
    if call is not None:
        return f"{where(view)} waits for an agent to claim it ({call.agent_id}): connect one at this Project.{then}"
    return f"{where(view)} waits.{then}"


def _paused(detail: RunDetail) -> str:
    view = detail.view
    if view.last_error is not None:
        return f"Rests, for the service stopped it: {_error(view)}"
    if detail.is_saved:
        return f"Rests after {where(view)}, whose result is saved. Resuming goes on from there and repeats nothing."
    return f"Rests before {where(view)}. Resuming goes on with it."
