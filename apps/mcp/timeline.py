"""A Run's attempts as bars over time, for a terminal."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from apps.mcp.terminal import duration, plain, status

#: Different marks, so that queued and running are told apart without colour.
QUEUED, RUNNING, GAP = "░", "█", " "
BAR_CELLS = 40
NO_TIME = dt.timedelta()
#: More rows than this fit no screen; the rest is counted.
MOST_ROWS = 40


def timeline(attempts: Sequence[Mapping[str, Any]], *, cells: int = BAR_CELLS) -> RenderableType:
    """One row per attempt in order of start: bar, time queued and running, and what came of it.

    ``attempts`` are as the REST face lists them; times are its wire times, and the bars share one scale.
    """
    if not attempts:
        return Text("No attempt has ended yet.")
    rows = sorted(attempts, key=lambda attempt: (_queued(attempt), attempt["stepSeq"]))
    begin = min(_queued(attempt) for attempt in rows)
    span = max(_moment(attempt["endedAt"]) for attempt in rows) - begin
    grid = Table.grid(padding=(0, 2, 0, 0))
    for justify in ("left", "left", "right", "right", "left"):
        grid.add_column(justify=justify, no_wrap=True)
    grid.add_row(*(Text(heading, style="bold") for heading in ("", "", "queued", "ran", "outcome")))
    for attempt in rows[:MOST_ROWS]:
        started = _started(attempt)
        grid.add_row(
            _label(attempt),
            _bar(attempt, begin, span, cells),
            duration(started - _queued(attempt)),
            duration(_moment(attempt["endedAt"]) - started),
            _result(attempt),
        )
    shown: list[RenderableType] = [grid]
    if len(rows) > MOST_ROWS:
        shown.append(Text(f"… and {len(rows) - MOST_ROWS} more attempts", style="dim"))
    shown.append(Text(f"{QUEUED} queued  {RUNNING} running  the whole width is {duration(span)}", style="dim"))
    return Group(*shown)


def _moment(text: str) -> dt.datetime:
    return dt.datetime.fromisoformat(text)


def _started(attempt: Mapping[str, Any]) -> dt.datetime:
    return _moment(attempt.get("startedAt") or attempt["endedAt"])


def _queued(attempt: Mapping[str, Any]) -> dt.datetime:
    queued = attempt.get("queuedAt")
    return min(_moment(queued), _started(attempt)) if queued else _started(attempt)


def _label(attempt: Mapping[str, Any]) -> Text:
    step = plain(attempt["step"]) if attempt["kind"] != "initialize" else "(begins)"
    name = f"{plain(attempt['stage'])}/{step}"
    extras = [
        f"visit {attempt['visit']}" if attempt["visit"] > 1 else "",
        "after the wait" if attempt["kind"] == "continuation" else "",
        f"attempt {attempt['attempt']}" if attempt["attempt"] > 1 else "",
    ]
    more = ", ".join(extra for extra in extras if extra)
    return Text.assemble(name, (f" ({more})" if more else "", "dim"))


def _bar(attempt: Mapping[str, Any], begin: dt.datetime, span: dt.timedelta, cells: int) -> Text:
    def cell(moment: dt.datetime) -> int:
        # Clocks may differ, so that an end comes before its beginning: nothing is drawn beyond the picture.
        return min(cells, max(0, round((moment - begin) / span * cells))) if span > NO_TIME else 0

    queued, started, ended = cell(_queued(attempt)), cell(_started(attempt)), cell(_moment(attempt["endedAt"]))
    # However short, a run shows: a bar that begins at the very end is moved inside.
    started = min(started, cells - 1)
    queued = min(queued, started)
    ended = max(ended, started + 1)
    style = status(attempt["status"]).style
    return Text.assemble(
        GAP * queued,
        (QUEUED * (started - queued), "dim"),
        (RUNNING * (ended - started), style),
        GAP * (cells - ended),
    )


def _result(attempt: Mapping[str, Any]) -> Text:
    shown = status(attempt["status"])
    if attempt.get("outcome") is not None:
        shown.append(f" {plain(attempt['outcome'])}")
    error = attempt.get("error")
    if error:
        shown.append(f" {plain(error['code'])}: {plain(error['message'])[:80]}")
    return shown
