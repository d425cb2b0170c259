"""The one way in which Code is run, by the engine and by the tester alike (R6).

:func:`run_segment` takes everything that a segment needs as a value and gives back everything that
came of it; it stores nothing, knows no database, and never raises.
"""

from __future__ import annotations

import datetime as dt
import enum
import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any

from pydantic import ValidationError

from apps.core import json_text
from apps.core.validation import issues_of
from apps.looms.authoring.human import Answer, Confirmation
from apps.looms.authoring.log import Log, LogLine
from apps.looms.authoring.refusals import ResultInvalid, StateInvalid
from apps.looms.authoring.staging import (
    AppendRecord,
    ArtifactRead,
    ArtifactValue,
    CreateArtifact,
    Read,
    RecordRead,
    RecordValue,
    RemoveArtifact,
    ReplaceArtifact,
    ResultReader,
    Staged,
)
from apps.looms.authoring.steps import CodeStep, StageContext, Work
from apps.looms.authoring.values import in_words
from apps.looms.authoring.waits import Ask, Confirm, Sleep
from apps.looms.domain.graph import CodeStepSpec
from apps.looms.execution import Raised, Returned, call
from apps.looms.loaded import LoadedLoom
from apps.looms.messages import MAX_MESSAGE, describe_exception, error_names, printable
from apps.looms.opening import open_work

__all__ = [
    "INITIALIZED",
    "AnswerInput",
    "AppendRecord",
    "ArtifactRead",
    "ArtifactValue",
    "Ask",
    "Confirm",
    "CreateArtifact",
    "Ending",
    "Failed",
    "LogLine",
    "Outcome",
    "Read",
    "RecordRead",
    "RecordValue",
    "RemoveArtifact",
    "ReplaceArtifact",
    "ResultReader",
    "SegmentInput",
    "SegmentKind",
    "SegmentOutput",
    "Sleep",
    "Staged",
    "run_segment",
]

#: The "outcome" of an initializer that returned a State.
INITIALIZED = "initialized"
MAX_OUTCOME = 200


class SegmentKind(enum.StrEnum):
    """What is run."""

    #: A Stage's initializer: it makes the State.
    INITIALIZE = "initialize"
    #: A Code Step from its start.
    STEP = "step"
    #: The rest of a Code Step after its wait.
    CONTINUATION = "continuation"


@dataclass(frozen=True, slots=True)
class AnswerInput:
    """What woke a continuation: ``kind`` is ``questions``, ``confirmation`` or ``sleep``; ``value``
    is the checked answer in its wire form (H1, H2), ``None`` after a sleep."""

    kind: str
    value: Any = None


@dataclass(frozen=True, kw_only=True)
class SegmentInput:
    """Everything that one segment needs.

    ``previous`` is what the Step ``previous_step`` (Stage, Step) returned, ``None`` at a Stage's
    entry.  ``now`` and ``seed`` are the same for all attempts of a visit.  ``results`` may be read
    from another thread than the caller's (see ``thread_done``, which is called there at the end).
    """

    run_id: str
    loom: LoadedLoom
    kind: SegmentKind
    stage: str
    step: str
    visit: int
    attempt: int
    idempotency_key: str
    input: Any
    previous: Any
    previous_step: tuple[str, str] | None
    state: Any
    continuation: str | None
    answer: AnswerInput | None
    now: dt.datetime
    seed: str
    results: ResultReader
    cancelled: Callable[[], bool]
    new_id: Callable[[], str]
    max_value_bytes: int = json_text.MAX_VALUE_BYTES
    thread_done: Callable[[], None] = lambda: None


@dataclass(frozen=True, slots=True)
class Outcome:
    """The Step completed; whether its graph routes the outcome is for the engine to say (R7)."""

    outcome: str


@dataclass(frozen=True, slots=True)
class Failed:
    """The segment failed and leaves nothing.

    ``code`` is ``STEP_FAILED``, ``STEP_TIMEOUT``, ``STEP_RESULT_INVALID`` or ``STATE_INVALID``.
    ``error_names`` are the names of the exception's classes that ``errors:`` may give, base classes
    included; empty when nothing was raised.
    """

    code: str
    message: str
    error_names: tuple[str, ...]


Ending = Outcome | Ask | Confirm | Sleep | Failed


@dataclass(frozen=True, slots=True)
class SegmentOutput:
    """Everything that came of a segment.  With :class:`Failed`, State is the one it began with and
    nothing is staged.  ``abandoned``: a synchronous Step past its timeout, whose thread goes on."""

    ending: Ending
    state: Any
    state_changed: bool
    staged: tuple[Staged, ...]
    reads: tuple[Read, ...]
    log: tuple[LogLine, ...]
    abandoned: bool = False


def run_segment(segment: SegmentInput, *, on_exception: Callable[[BaseException], None] | None = None) -> SegmentOutput:
    """Run one segment.  ``on_exception`` (a debugger's) sees what Code raised before it is put away."""
    loom = segment.loom
    work = open_work(
        loom,
        segment.stage,
        reader=segment.results,
        max_value_bytes=segment.max_value_bytes,
        new_id=segment.new_id,
        is_cancelled=segment.cancelled,
    )
    try:
        return _run(segment, work, on_exception)
    except BaseException as error:  # whatever Code's own models do must not take the worker along
        return _failed(segment, work, _failure_of(error, loom))
    finally:
        work.closed = True


def _run(segment: SegmentInput, work: Work, on_exception: Callable[[BaseException], None] | None) -> SegmentOutput:
    if segment.kind is SegmentKind.INITIALIZE:
        function = segment.loom.initializer(segment.stage)
        if function is None:
            return SegmentOutput(Outcome(INITIALIZED), None, False, (), (), ())
    elif segment.kind is SegmentKind.STEP:
        function = segment.loom.code(segment.stage, segment.step)
    else:
        function = segment.loom.continuation(segment.continuation or "")
    if segment.kind is not SegmentKind.INITIALIZE:
        work.cell.load(segment.state)
    spec = segment.loom.graph.step(segment.stage, segment.step)
    is_timed = isinstance(spec, CodeStepSpec) and segment.kind is not SegmentKind.INITIALIZE
    called = call(
        function,
        _arguments(segment, work),
        timeout=spec.timeout_seconds if is_timed else None,
        thread_done=segment.thread_done,
    )
    if isinstance(called, Returned):
        return _settled(segment, work, called.value)
    if isinstance(called, Raised):
        if on_exception is not None:
            on_exception(called.error)
        _note_place(called.error, segment.loom, work.log)
        return _failed(segment, work, _failure_of(called.error, segment.loom))
    work.closed = True
    message = f"The Step did not end within its timeout of {spec.timeout_seconds:g} s."
    failure = Failed("STEP_TIMEOUT", message, error_names(TimeoutError, segment.loom.package))
    return replace(_failed(segment, work, failure), abandoned=called.abandoned)


def _arguments(segment: SegmentInput, work: Work) -> list[Any]:
    loom = segment.loom
    try:
        run_input = loom.read_input(segment.input)
    except ValidationError as error:
        raise ResultInvalid(f"The Run's input does not fit: {in_words(issues_of(error, segment.input))}") from None
    if segment.kind is SegmentKind.INITIALIZE:
        return [StageContext(segment.run_id, loom.name, segment.stage, run_input, loom.settings)]
    previous = segment.previous
    if previous is not None and segment.previous_step is not None:
        previous = loom.read_previous(*segment.previous_step, previous)
    step: CodeStep[Any] = CodeStep(
        work,
        run_id=segment.run_id,
        stage_name=segment.stage,
        step_name=segment.step,
        visit=segment.visit,
        attempt=segment.attempt,
        idempotency_key=segment.idempotency_key,
        input=run_input,
        previous=previous,
        settings=loom.settings,
        now=segment.now,
        seed=segment.seed,
    )
    return [step, *_answer(segment)]


def _answer(segment: SegmentInput) -> list[Any]:
    if segment.kind is not SegmentKind.CONTINUATION or segment.answer is None:
        return []
    value = segment.answer.value
    if segment.answer.kind == "questions":
        return [[Answer(one["questionId"], one["isSkipped"], one.get("answer")) for one in value]]
    if segment.answer.kind == "confirmation":
        return [Confirmation(value["isConfirmed"], value.get("feedback"))]
    return []


def _settled(segment: SegmentInput, work: Work, returned: Any) -> SegmentOutput:
    if segment.kind is SegmentKind.INITIALIZE:
        work.cell.assign(returned)
        ending: Ending = Outcome(INITIALIZED)
    else:
        ending = _ending(segment, work, returned)
        if isinstance(ending, Failed):
            return _failed(segment, work, ending)
    state = work.cell.snapshot()
    return SegmentOutput(
        ending,
        state,
        json_text.dumps(state) != json_text.dumps(segment.state),
        work.staging.staged(),
        work.staging.reads(),
        work.log.lines(),
    )


def _ending(segment: SegmentInput, work: Work, returned: Any) -> Ending:
    if isinstance(returned, (Ask, Confirm, Sleep)):
        return returned
    outcomes = ", ".join(segment.loom.graph.step(segment.stage, segment.step).on)
    expected = f"return one of its outcomes ({outcomes}) or a wait made by ask, confirm or sleep_until"
    if type(returned) is not str:
        kind = "None" if returned is None else f"a {type(returned).__name__}"
        return _result_invalid(f"The Step returned {kind}; {expected}.")
    if not returned.strip() or len(returned) > MAX_OUTCOME or not returned.isprintable():
        return _result_invalid(f"The Step returned the text {returned[:MAX_OUTCOME]!r}; {expected}.")
    problem = work.bounds.problem(returned)
    return _result_invalid(f"The Step's outcome cannot be stored: {problem}") if problem else Outcome(returned)


def _result_invalid(message: str) -> Failed:
    return Failed("STEP_RESULT_INVALID", printable(message, MAX_MESSAGE), ())


def _failure_of(error: BaseException, loom: LoadedLoom) -> Failed:
    if isinstance(error, StateInvalid | ResultInvalid):
        # Nonsense is no exception that a retry could answer: it would only be repeated.
        code = "STATE_INVALID" if isinstance(error, StateInvalid) else "STEP_RESULT_INVALID"
        return Failed(code, printable(loom.secrets.redact(str(error))), ())
    return Failed("STEP_FAILED", describe_exception(error, loom.secrets), error_names(type(error), loom.package))


def _failed(segment: SegmentInput, work: Work, failure: Failed) -> SegmentOutput:
    return SegmentOutput(failure, segment.state, False, (), (), work.log.lines())


def _note_place(error: BaseException, loom: LoadedLoom, log: Log) -> None:
    """For the author: the line of the Loom that raised, by its file inside the folder."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        parts = PurePath(frame.filename).parts
        if loom.digest in parts:
            inside = "/".join(parts[parts.index(loom.digest) + 1 :])
            log.error("%s, line %s, in %s", inside, frame.lineno, frame.name)
            return
