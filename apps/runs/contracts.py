"""Runs on the wire (contract section 5) and the requests that start and steer them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

from apps.core.contracts import Contract, Cursor, PageLimit, UuidText
from apps.ledger.contracts import EventView, Identity, Receipt

LoomName = Annotated[str, Field(min_length=1, max_length=64)]
ActionId = Annotated[UuidText, Field(description="`pendingAction.id` of the Run.")]
StatusName = Literal["queued", "running", "waiting", "paused", "completed", "failed", "cancelled"]


class CursorView(Contract):
    """The Step to run or running; when terminal, the last one."""

    stage: str
    step: str
    visit: int


class ExecutionView(Contract):
    """The source policy that the Run was admitted with."""

    source: str
    agent_executor: Literal["mcp_client", "service_model"]
    profile: str | None = None


class PendingAction(Contract):
    """The question list or confirmation that a human is asked for; ``id`` is the actionId."""

    id: str
    kind: Literal["questions", "confirmation"]
    request: Any = None
    only_person: bool
    created_at: str


class PendingAgentCall(Contract):
    """The Agent Step that waits for, or is owned by, an external agent; ``id`` is the callId."""

    id: str
    agent_id: str
    phase: Literal["available", "claimed"]
    created_at: str


class LastError(Contract):
    """Why the Run failed, or was paused by the service."""

    code: str
    message: str
    stage: str
    step: str
    attempt: int


class ResultIds(Contract):
    """What the Run wrote."""

    artifact_ids: list[str]
    record_ids: list[str]


class Origin(Contract):
    """The Operation that started the Run."""

    operation_id: str
    service_instance_id: str


class RestoredFrom(Contract):
    """Where a restored or forked Run came from."""

    mirror_id: str | None
    run_id: str
    boundary: int


class UsageView(Contract):
    """What models of the service used so far; a request counts once it went out."""

    requests: int
    input_tokens: int
    output_tokens: int
    total_tokens: int
    tool_calls: int


class RunView(Contract):
    """A Run as it stands (R1, R2)."""

    run_id: str
    trace_id: str
    loom_name: str
    release_digest: str
    project: str
    status: StatusName
    revision: int
    cursor: CursorView
    input: Any
    execution: ExecutionView
    pause_requested: bool
    pending_action: PendingAction | None = None
    pending_agent_call: PendingAgentCall | None = None
    outcome: str | None = None
    last_error: LastError | None = None
    results: ResultIds
    usage: UsageView | None = None
    origin: Origin | None
    restored_from: RestoredFrom | None = None
    boundary: int
    historical: bool
    created_at: str
    updated_at: str
    started_at: str | None = None
    finished_at: str | None = None


class RunSummary(RunView):
    """A Run in a list: without its input and the Action's request."""

    input: Any = Field(default=None, exclude=True)


class RunLoom(Identity):
    """Start a Run of a Loom's newest Release."""

    loom_name: LoomName
    input: Annotated[Any, Field(description="JSON that fits the Loom's inputSchema; not a text that holds it.")]


class GetRun(Contract):
    """Which Run."""

    run_id: UuidText


class RunFound(Contract):
    """The Run as it stands."""

    run: RunView


class ListRuns(Contract):
    """Filters; a cursor goes with the filters it was made for (R3)."""

    loom_name: LoomName | None = None
    status: StatusName | None = None
    limit: PageLimit = 50
    cursor: Cursor | None = None


class RunList(Contract):
    """One page, newest first."""

    runs: list[RunSummary]
    next_cursor: str | None = None


class SteerRun(Identity):
    """Pause or cancel a Run."""

    run_id: UuidText


class ResumeRun(SteerRun):
    """Resume a paused Run at the revision that the caller has seen."""

    expected_revision: Annotated[int, Field(ge=1)]
    #: 1: ask for a pause after the next Step.
    steps: Literal[1] | None = None
    scope: Annotated[
        Literal["artifacts", "state", "all"] | None,
        Field(description="What to bring back first, as new revisions, where it changed while the Run was paused."),
    ] = None
    abandon_mirror: Annotated[
        bool, Field(description="Go on with what is there now, whatever changed while the Run was paused.")
    ] = False

    @field_validator("abandon_mirror")
    @classmethod
    def _one_way(cls, abandon: bool, info: ValidationInfo) -> bool:
        if abandon and info.data.get("scope") is not None:
            raise PydanticCustomError("one_way", "Send either `scope` or `abandonMirror`: bring it back, or go on.")
        return abandon


class ForkRun(SteerRun):
    """Begin another Run at a boundary of a Run."""

    boundary: Annotated[
        int,
        Field(ge=0, description="The number of Steps that the Run had completed there; 0 is its beginning."),
    ]


class AnswerAsk(SteerRun):
    """Answer the Action that a Run waits for."""

    action_id: ActionId
    answer: Annotated[
        Any, Field(description="A list for questions, an object for a confirmation; not a text that holds it.")
    ]


class Interact(SteerRun):
    """Put the Action that a Run waits for to the human."""

    action_id: ActionId


class OperationResult(Contract):
    """The receipt, and an independent current view of the Run (O1, O9)."""

    receipt: Receipt
    run: RunView | None = None


class Interaction(Contract):
    """What came of asking: the receipt of the human's answer, or the Action that they have not answered (H4)."""

    receipt: Receipt | None = None
    run: RunView | None = None
    action: PendingAction | None = None
    #: Why there is no receipt: this client shows no form, or the human left it.
    presented: Literal["unsupported", "declined", "cancelled"] | None = None


class FindRun(Identity):
    """The identity under which the Run was started."""


class RunOrNull(Contract):
    """``run`` is null when no Run has that origin (O8)."""

    run: RunView | None


class ListEvents(GetRun):
    """Events in order, after a number already seen."""

    limit: PageLimit = 50
    cursor: Cursor | None = None


class EventList(Contract):
    """One page of events."""

    events: list[EventView]
    next_cursor: str | None = None


class AttemptView(Contract):
    """One attempt at a segment: when it was queued, started and ended, and what came of it."""

    step_seq: int
    stage: str
    step: str
    visit: int
    kind: Literal["initialize", "step", "continuation"]
    segment: int
    attempt: int
    status: Literal["completed", "waited", "failed", "indeterminate", "cancelled"]
    outcome: str | None = None
    error: LastError | None = None
    boundary: int | None = None
    state: Any = None
    reads: list[dict[str, Any]]
    writes: list[dict[str, Any]]
    log: list[dict[str, str]]
    usage: UsageView | None = None
    queued_at: str | None = None
    started_at: str | None = None
    ended_at: str


class ListAttempts(GetRun):
    """Attempts in the order in which they ended."""

    limit: PageLimit = 50
    cursor: Cursor | None = None


class AttemptList(Contract):
    """One page of attempts."""

    attempts: list[AttemptView]
    next_cursor: str | None = None


class BoundaryView(Contract):
    """A point that a Run can be forked at: the Step that completed there, with its outcome.

    At boundary 0 none has; `stage` and `step` are those that the Run begins with.
    """

    boundary: int
    stage: str
    step: str
    visit: int
    outcome: str | None = None
    at: str


class ListBoundaries(GetRun):
    """Boundaries in the order in which the Run came to them."""

    limit: PageLimit = 50
    cursor: Cursor | None = None


class BoundaryList(Contract):
    """One page of boundaries."""

    boundaries: list[BoundaryView]
    next_cursor: str | None = None


class LineageEntry(Contract):
    """One Run of a trace: which it came from, and which boundaries it holds.

    `parentRunId` is null at a root, and where the Run it came from is not in this list. `depth` counts the
    Runs above it.
    """

    run_id: str
    parent_run_id: str | None
    depth: int
    status: StatusName
    outcome: str | None = None
    first_boundary: int
    boundary: int
    restored_from: RestoredFrom | None = None
    created_at: str
    finished_at: str | None = None


class Lineage(Contract):
    """The Runs of the Run's trace in its Project as a tree: each before those that came from it, older ones first.

    Only the oldest thousand are listed; `truncated` says that there are more.
    """

    trace_id: str
    runs: list[LineageEntry]
    truncated: bool


class ServiceView(Contract):
    """What a client reads first (N8)."""

    instance_id: str
    version: str
    started_at: str
    project: str
    source: str
    agent_executor: Literal["mcp_client", "service_model"]
    ready: bool
    not_ready_because: str | None = None
    limits: dict[str, int]
    counts: dict[str, int]


class Status(Contract):
    """The service as this caller sees it."""

    service: ServiceView
