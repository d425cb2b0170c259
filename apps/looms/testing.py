"""Running a Loom in memory: the same segments and routes as the service, without any service.

Time does not pass by itself: backoffs and sleeps move the test's clock.  Agents and people are
played by what the caller hands in.
"""

from __future__ import annotations

import atexit
import datetime as dt
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from apps.looms.authoring.values import in_words
from apps.looms.checking.check import Checked, check_folder
from apps.looms.diagnostics import Diagnostic, did_you_mean, errors_in
from apps.looms.driving import Driver
from apps.looms.loaded import LoadedLoom
from apps.looms.memory_results import MemoryResults
from apps.looms.trial import START, AgentPlay, LoomRun, Problem, ScriptMismatch, StepTrace, ToolUse

__all__ = [
    "AgentPlay",
    "LoomInvalid",
    "LoomRun",
    "MemoryResults",
    "Problem",
    "ScriptMismatch",
    "StepTrace",
    "ToolUse",
    "load_folder",
    "run_loom",
]


class LoomInvalid(Exception):
    """The folder is no Loom that can run; the text lists every problem."""

    def __init__(self, diagnostics: Sequence[Diagnostic]) -> None:
        lines = [f"{one.place}: {one.message} {one.suggestion or ''}".rstrip() for one in diagnostics]
        super().__init__("\n".join(lines))
        self.diagnostics = tuple(diagnostics)


def load_folder(folder: str | os.PathLike[str], environ: Mapping[str, str] | None = None) -> Checked:
    """Check and load a Loom folder without a service; its code is imported from a temporary copy."""
    return check_folder(Path(folder), releases_dir=_scratch(), environ=os.environ if environ is None else environ)


@cache
def _scratch() -> Path:
    """One folder for this process: modules stay importable until it ends."""
    path = Path(tempfile.mkdtemp(prefix="loomsvc-"))
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path


def run_loom(
    folder: str | os.PathLike[str] | LoadedLoom,
    input: Any = None,
    *,
    answers: Sequence[Any] = (),
    agents: Mapping[str, Sequence[AgentPlay | dict[str, Any]]] | None = None,
    results: MemoryResults | None = None,
    until: str | None = None,
    now: dt.datetime = START,
    random_seed: int = 0,
    environ: Mapping[str, str] | None = None,
    on_step: Callable[[StepTrace], None] | None = None,
    on_exception: Callable[[BaseException], None] | None = None,
) -> LoomRun:
    """Run a Loom to its end, or to the first thing that nothing is given for.

    ``answers`` are given in order, in their wire form (a question list's answer may also be
    ``{id: text or None}``, a confirmation's a bool).  ``agents`` maps a Step's name to what its
    agent does at each visit.  ``until`` names the Step to stop after.  ``now`` is the time at which
    the Run begins; ``random_seed`` decides what ``step.random`` gives.

    Raises :class:`LoomInvalid`, ``ValueError`` for an input that does not fit or an ``until`` that
    is no Step, and :class:`ScriptMismatch`.
    """
    if isinstance(folder, LoadedLoom):
        loom = folder
    else:
        checked = load_folder(folder, environ)
        if checked.loom is None:
            raise LoomInvalid(errors_in(checked.diagnostics))
        loom = checked.loom
    if until is not None:
        _check_until(loom, until)
    issues = loom.check_input(input)
    if issues:
        raise ValueError(f"The input does not fit: {in_words(issues)}")
    run = LoomRun(loom, input, results=results or MemoryResults(), now=now, random_seed=random_seed)
    Driver(run, answers, agents or {}, on_step=on_step, on_exception=on_exception).drive(until)
    return run


def _check_until(loom: LoadedLoom, until: str) -> None:
    full = [f"{stage.name}.{step}" for stage in loom.graph.stages.values() for step in stage.steps]
    short = [name.partition(".")[2] for name in full]
    if until not in full and until not in short:
        hint = did_you_mean(until, full if "." in until else short)
        raise ValueError(f"{loom.name} has no Step {until}. {hint}")
