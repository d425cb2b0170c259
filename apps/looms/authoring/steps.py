"""The objects that the functions of a Loom are called with."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic

from typing_extensions import TypeVar

from apps.looms.authoring import waits
from apps.looms.authoring.human import Question
from apps.looms.authoring.log import Log
from apps.looms.authoring.refusals import SegmentOver
from apps.looms.authoring.staging import Artifact, Record, Staging
from apps.looms.authoring.state import StateCell
from apps.looms.authoring.values import Bounds

State = TypeVar("State")
#: What these are is the author's to say: ``CodeStep[Draft]``, or ``CodeStep[Draft, Input, Settings]``.
Input = TypeVar("Input", default=Any)
Settings = TypeVar("Settings", default=Any)


@dataclass
class Work:
    """What stands behind the objects of one segment or Tool call.

    ``close`` cuts a thread that went on after its timeout off from everything.
    """

    loom_name: str
    package: str
    bounds: Bounds
    cell: StateCell
    staging: Staging
    log: Log
    is_cancelled: Callable[[], bool]
    closed: bool = False

    def open_staging(self) -> Staging:
        if self.closed:
            raise SegmentOver("This Step is past its timeout; nothing of it counts any more.")
        return self.staging

    def cancelled(self) -> bool:
        return self.closed or self.is_cancelled()


@dataclass(frozen=True, slots=True)
class StageContext(Generic[Input, Settings]):
    """What an initializer gets; it returns the Stage's first State."""

    run_id: str
    loom_name: str
    stage_name: str
    input: Input
    settings: Settings


class Artifacts:
    """The Project's Artifacts, with what this Step has staged laid over them."""

    def __init__(self, work: Work) -> None:
        self._work = work

    def get(self, loom_name: str, stage_name: str) -> Artifact | None:
        """The Artifact of a Stage."""
        return self._work.open_staging().artifact_at(loom_name, stage_name)

    def get_by_id(self, artifact_id: str) -> Artifact | None:
        """The Artifact with this id."""
        return self._work.open_staging().artifact(artifact_id)


class Records:
    """The Project's Records, with what this Step has staged laid over them."""

    def __init__(self, work: Work) -> None:
        self._work = work

    def get(self, record_id: str) -> Record | None:
        """The Record with this id."""
        return self._work.open_staging().record(record_id)

    def latest(self, loom_name: str, stage_name: str) -> Record | None:
        """The newest Record of a Stage."""
        return self._work.open_staging().latest_record(loom_name, stage_name)


class _Stateful(Generic[State, Input, Settings]):
    """What Code Steps and Tools have in common."""

    def __init__(self, work: Work, *, input: Input, settings: Settings) -> None:
        self._work = work
        self.input = input
        self.settings = settings
        self.log = work.log

    @property
    def state(self) -> State:
        """This Stage's State; assigning checks it."""
        value: State = self._work.cell.value
        return value

    @state.setter
    def state(self, value: State) -> None:
        self._work.cell.assign(value)

    def update(self, **fields: Any) -> None:
        """Replace some fields of State, checked together."""
        self._work.cell.update(fields)

    @cached_property
    def artifacts(self) -> Artifacts:
        return Artifacts(self._work)

    @cached_property
    def records(self) -> Records:
        return Records(self._work)

    def cancelled(self) -> bool:
        """Whether the result is no longer wanted: a long Step may stop."""
        return self._work.cancelled()


class CodeStep(_Stateful[State, Input, Settings]):
    """What a Code Step and its continuations get.  Return an outcome, or a wait made here."""

    def __init__(
        self,
        work: Work,
        *,
        run_id: str,
        stage_name: str,
        step_name: str,
        visit: int,
        attempt: int,
        idempotency_key: str,
        input: Input,
        previous: Any,
        settings: Settings,
        now: dt.datetime,
        seed: str,
    ) -> None:
        super().__init__(work, input=input, settings=settings)
        self.run_id = run_id
        self.loom_name = work.loom_name
        self.stage_name = stage_name
        self.step_name = step_name
        self.visit = visit
        self.attempt = attempt
        #: The same for all attempts of a visit: hand it to services that take one.
        self.idempotency_key = idempotency_key
        #: What the Step before returned: an agent's output model, else its outcome; None at a Stage's entry.
        self.previous = previous
        self._now = now
        self._seed = seed

    def now(self) -> dt.datetime:
        """The time, the same for all attempts of a visit."""
        return self._now

    @cached_property
    def random(self) -> random.Random:
        """Random numbers, the same for all attempts of a visit.  Not for secrets."""
        return random.Random(self._seed)  # noqa: S311

    def put_artifact(self, data: Any) -> str:
        """Create this Stage's Artifact, or replace it at the revision last read; returns its id."""
        return self._work.open_staging().put(data)

    def create_artifact(self, data: Any, *, artifact_id: str | None = None) -> str:
        """Create this Stage's Artifact; returns its id."""
        return self._work.open_staging().create(data, artifact_id=artifact_id)

    def replace_artifact(self, artifact_id: str, *, expected_revision: int, data: Any) -> str:
        """Replace an Artifact that stands at ``expected_revision``."""
        return self._work.open_staging().replace(artifact_id, expected_revision=expected_revision, data=data)

    def remove_artifact(self, artifact_id: str, *, expected_revision: int) -> None:
        """Remove an Artifact that stands at ``expected_revision``."""
        self._work.open_staging().remove(artifact_id, expected_revision=expected_revision)

    def append_record(self, data: Any, *, record_id: str | None = None) -> str:
        """Append a Record; returns its id.  A known id with the same data changes nothing."""
        return self._work.open_staging().append(data, record_id=record_id)

    def ask(self, questions: Iterable[Question], *, then: Callable[..., Any], only_person: bool = False) -> waits.Wait:
        """Ask a person; ``then(step, answers)`` goes on.  Return what this returns."""
        reference = waits.reference_to(then, self._work.package)
        return waits.ask(questions, then=reference, only_person=only_person, bounds=self._work.bounds)

    def confirm(self, context: str, *, then: Callable[..., Any], only_person: bool = False) -> waits.Wait:
        """Ask a person for yes or no about ``context`` (Markdown); ``then(step, answer)`` goes on."""
        reference = waits.reference_to(then, self._work.package)
        return waits.confirm(context, then=reference, only_person=only_person, bounds=self._work.bounds)

    def sleep_until(self, when: dt.datetime, *, then: Callable[..., Any]) -> waits.Wait:
        """Wait without holding a worker; ``then(step)`` goes on."""
        return waits.sleep(when, then=waits.reference_to(then, self._work.package))


class ToolCall(_Stateful[State, Input, Settings]):
    """What a Tool gets.  It may read and assign State; it cannot commit results, ask or confirm."""

    def __init__(
        self, work: Work, *, run_id: str, call_id: str, tool_call_id: str, input: Input, settings: Settings
    ) -> None:
        super().__init__(work, input=input, settings=settings)
        self.run_id = run_id
        self.call_id = call_id
        self.tool_call_id = tool_call_id
