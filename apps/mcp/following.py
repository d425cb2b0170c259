"""Following a Run in a terminal: a live line while it moves, its questions asked in place."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

from rich.console import Console
from rich.text import Text

from apps.core import clock
from apps.mcp.terminal import duration, place_of, plain, status, waits_for_agent

#: Seconds between two looks: short at first, so that a quick Run is over at once.
_FIRST_LOOK, _LONGEST_PAUSE, _GROWTH = 0.05, 0.5, 1.3
#: The spinner and the space after it.
_SPINNER_CELLS = 2
ENDED = frozenset({"completed", "failed", "cancelled"})

View = Mapping[str, Any]
#: The answer to a Run's pending Action; ``None`` leaves the Run waiting.
Answering = Callable[[View], Any]
#: Does a Run's pending agent call.
Working = Callable[[View], object]


class Caller(Protocol):
    """Whoever can call a Tool: (name, arguments) → structured result."""

    def call(self, tool: str, arguments: Mapping[str, Any], /) -> dict[str, Any]: ...


def follow(
    service: Caller,
    run_id: str,
    *,
    console: Console,
    answering: Answering,
    submit: Callable[[View, Any], object],
    working: Working | None = None,
) -> View:
    """Watch the Run until it ends, is paused, or waits for a person who does not answer; its last view.

    ``answering`` is asked once for each pending Action, and ``submit`` sends what it said; ``working`` does
    agent calls, which without it are waited for.
    """
    pause = _FIRST_LOOK
    with _progress(console) as show:
        while True:
            view: View = service.call("get_run", {"runId": run_id})["run"]
            show(view)
            if view["status"] in ENDED or view["status"] == "paused":
                return view
            if view.get("pendingAction"):
                show(None)
                answer = answering(view)
                if answer is None:
                    return view
                submit(view, answer)
                pause = _FIRST_LOOK
                continue
            if working is not None and view.get("pendingAgentCall"):
                show(None)
                working(view)
                pause = _FIRST_LOOK
                continue
            time.sleep(pause)
            pause = min(_LONGEST_PAUSE, pause * _GROWTH)


@contextmanager
def _progress(console: Console) -> Iterator[Callable[[View | None], None]]:
    """Shows views: as one moving line on a terminal, else a line for every change; ``None`` rests it."""
    if not console.is_terminal:
        yield _lines(console)
        return
    spinner = console.status("")

    def show(view: View | None) -> None:
        if view is None:
            spinner.stop()
        else:
            line = _with_time(view)
            # One line: what wraps does not move but scrolls.
            line.truncate(console.width - _SPINNER_CELLS, overflow="ellipsis")
            spinner.update(line)
            spinner.start()

    try:
        yield show
    finally:
        spinner.stop()


def _lines(console: Console) -> Callable[[View | None], None]:
    last: list[str] = []

    def show(view: View | None) -> None:
        if view is not None and last != [said := describe(view).plain]:
            last[:] = [said]
            console.print(_with_time(view).plain)

    return show


def _with_time(view: View) -> Text:
    """The line with the time since the Run began; apart, because time alone is no change."""
    began = dt.datetime.fromisoformat(view.get("startedAt") or view["createdAt"])
    ended = dt.datetime.fromisoformat(view["finishedAt"]) if view.get("finishedAt") else clock.now()
    return describe(view).append(f"  {duration(ended - began)}", style="dim")


def describe(view: View) -> Text:
    """Status, place and progress of a Run in one line."""
    shown = status(view["status"])
    shown.append(f"  {plain(place_of(view))}", style="bold")
    shown.append(f"  {view['boundary']} {'Step' if view['boundary'] == 1 else 'Steps'} done", style="dim")
    if view["pauseRequested"]:
        shown.append("  pauses after this Step", style="yellow")
    if view.get("pendingAgentCall"):
        shown.append(f"  {plain(waits_for_agent(view['pendingAgentCall']))}", style="magenta")
    return shown
