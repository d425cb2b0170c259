"""The shape of each line of each file.  Additions need a new version of the format."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from apps.core import json_text
from apps.core.contracts import Contract

Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}\z")]
Uuid = Annotated[str, Field(pattern=r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\z")]


def _printable(value: str) -> str:
    if not value.isprintable():
        raise ValueError("not printable")
    return value


Name = Annotated[str, Field(min_length=1, max_length=64), AfterValidator(_printable)]
Text = Annotated[str, Field(max_length=200)]
ResultId = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_printable)]
Count = Annotated[int, Field(ge=0, le=json_text.MAX_SAFE_INTEGER)]
#: What the ledger counts in 32 bits.
Number = Annotated[int, Field(ge=0, le=2**31 - 1)]


def _time(value: str) -> str:
    moment = dt.datetime.strptime(value, "%Y-%m-%dT%H:%M:%S.%fZ")  # noqa: DTZ007 - Z is UTC
    if moment.isoformat(timespec="microseconds") + "Z" != value:
        raise ValueError("not a time with microseconds")
    return value


#: ISO 8601, UTC, with six digits and ``Z``.
Time = Annotated[str, AfterValidator(_time)]


class Execution(Contract):
    """The policy that the Run was admitted with."""

    source: Annotated[str, Field(max_length=16)]
    agent_executor: Annotated[str, Field(max_length=16)]
    profile: Annotated[str, Field(max_length=16)] | None


class Origin(Contract):
    """The Operation that started the Run."""

    operation_id: Uuid
    service_instance_id: Uuid


class Ancestor(Contract):
    """Where a restored or forked Run came from."""

    mirror_id: Uuid | None
    run_id: Uuid
    boundary: Number


class Dependency(Contract):
    """An Artifact as the Run last saw it at the boundary; ``removed``: nothing stood there any more."""

    artifact_id: ResultId
    loom_name: Name
    stage_name: Name
    revision: Count
    digest: Digest
    removed: bool


class Held(Contract):
    """All that a Run needs to go on from the boundary.

    ``stage``, ``step``: the Step that completed, with its ``outcome``, and the ``result`` that the next one reads.
    At boundary 0 the entry Step, with no outcome.
    """

    boundary: Number
    stage: Name
    step: Name
    visit: Number
    outcome: Text | None
    result: Any
    visits: dict[Text, Number]
    state_id: Uuid | None
    dependencies: list[Dependency]
    artifact_ids: list[ResultId]
    record_ids: list[ResultId]
    reached_at: Time


class RunLine(Contract):
    """The one line of ``run.jsonl``."""

    run_id: Uuid
    trace_id: Uuid
    loom_name: Name
    release_digest: Digest
    exclusive: bool
    input: Any
    execution: Execution
    origin: Origin | None
    restored_from: Ancestor | None
    created_at: Time
    held: Held


class StepLine(Contract):
    """One attempt at a segment."""

    step_seq: Count
    stage: Name
    step: Name
    visit: Number
    kind: Name
    segment: Number
    attempt: Number
    status: Name
    outcome: Text | None
    error: dict[str, Any] | None
    state_id: Uuid | None
    boundary: Number | None
    result: Any
    event_seq: Number | None
    reads: list[dict[str, Any]]
    writes: list[dict[str, Any]]
    queued_at: Time | None
    started_at: Time | None
    ended_at: Time


class LogLine(Contract):
    """What an attempt at a segment logged, or a Tool call: the one or the other names it."""

    step_seq: Count | None
    event_seq: Number | None
    number: Count
    level: Name
    message: str


class StateLine(Contract):
    """A Stage's State after an attempt."""

    state_id: Uuid
    stage: Name
    digest: Digest
    data: Any
    created_at: Time


class ActionLine(Contract):
    """What a person was asked, and the answer with who gave it and how."""

    action_id: Uuid
    kind: Name
    request: Any
    only_person: bool
    answer: Any
    answered_by: dict[str, Any] | None
    created_at: Time
    answered_at: Time | None


class AgentCallLine(Contract):
    """An Agent Step's call.  ``openedSeq`` and ``closedSeq`` are event numbers."""

    call_id: Uuid
    agent_id: Name
    stage: Name
    step: Name
    visit: Number
    opened_seq: Number
    opened_at: Time
    claimed_by: Text | None
    claimed_at: Time | None
    closed_seq: Number
    closed_at: Time
    closed_as: Name
    result: Any


class ToolReceiptLine(Contract):
    """What an agent had a Tool do, and what came of it."""

    call_id: Uuid
    tool_call_id: Annotated[str, Field(max_length=512)]
    tool_id: Name
    status: Name
    input: Any
    output: Any
    error: Any
    started_seq: Number
    started_at: Time
    settled_seq: Number
    settled_at: Time


class OperationLine(Contract):
    """A write that moved the Run; ``revision`` is the one that it made."""

    operation_id: Uuid
    service_instance_id: Uuid
    kind: Name
    parameters_digest: Digest
    entry: Name
    source: Name
    principal: Text
    revision: Count
    created_at: Time
    decided_at: Time


class EventLine(Contract):
    """One event of the Run's numbered history."""

    seq: Annotated[int, Field(ge=1, le=2**31 - 1)]
    type: Annotated[str, Field(min_length=1, max_length=40)]
    at: Time
    data: dict[str, Any]


class ArtifactLine(Contract):
    """A revision that the Run read or wrote; a removal has null for its data.

    A restored Run numbers what it brought along as its source did, so that two Artifacts may have one number.
    """

    artifact_id: ResultId
    loom_name: Name
    stage_name: Name
    revision: Count
    removed: bool
    digest: Digest
    data: Any
    run_id: Uuid
    created_at: Time


class RecordLine(Contract):
    """A Record that the Run read or appended."""

    record_id: ResultId
    loom_name: Name
    stage_name: Name
    digest: Digest
    data: Any
    run_id: Uuid
    created_at: Time


class ReleaseLine(Contract):
    """The one line of ``release.jsonl``; the files stand under ``release/``."""

    digest: Digest
    loom_name: Name
    requires: dict[Text, Text]


SHAPES: dict[str, type[Contract]] = {
    "actions.jsonl": ActionLine,
    "agent-calls.jsonl": AgentCallLine,
    "artifacts.jsonl": ArtifactLine,
    "events.jsonl": EventLine,
    "log.jsonl": LogLine,
    "operations.jsonl": OperationLine,
    "records.jsonl": RecordLine,
    "release.jsonl": ReleaseLine,
    "run.jsonl": RunLine,
    "states.jsonl": StateLine,
    "steps.jsonl": StepLine,
    "tool-receipts.jsonl": ToolReceiptLine,
}

#: What the lines of a file are ordered by, each once.
KEYS: dict[str, Callable[[Any], Any]] = {
    "actions.jsonl": lambda line: line.action_id,
    "agent-calls.jsonl": lambda line: line.opened_seq,
    "artifacts.jsonl": lambda line: (line.loom_name, line.stage_name, line.revision, line.artifact_id),
    "events.jsonl": lambda line: line.seq,
    "log.jsonl": lambda line: (line.event_seq or 0, line.step_seq or 0, line.number),
    "operations.jsonl": lambda line: line.revision,
    "records.jsonl": lambda line: line.record_id,
    "release.jsonl": lambda line: line.digest,
    "run.jsonl": lambda line: line.run_id,
    "states.jsonl": lambda line: line.state_id,
    "steps.jsonl": lambda line: line.step_seq,
    "tool-receipts.jsonl": lambda line: line.settled_seq,
}


class Entry(Contract):
    """A file of the bundle in its manifest.  ``lines`` is null for a file of the Release."""

    path: str
    size: Count
    sha256: Digest
    lines: Count | None


class Manifest(Contract):
    """``manifest.json``; ``digest`` is over its canonical form without that member."""

    format: Literal["loomsvc-mirror"]
    version: Literal[1]
    trace_id: Uuid
    run_id: Uuid
    loom_name: Name
    release_digest: Digest
    boundary: Number
    event_seq: Number
    counts: dict[str, Count]
    entries: list[Entry]
    digest: Digest


def manifest_digest(members: dict[str, Any]) -> str:
    """The digest of a manifest, given as its wire members with or without one."""
    return json_text.digest({name: value for name, value in members.items() if name != "digest"})
