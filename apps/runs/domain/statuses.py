"""Where a Run can stand (R1)."""

from __future__ import annotations

import enum


class RunStatus(enum.StrEnum):
    """The state of a Run."""

    #: Something of it is due; a worker takes it as soon as it may.
    QUEUED = "queued"
    #: A worker holds its lease and runs a segment.
    RUNNING = "running"
    #: It waits for a human's answer or for an external agent; no worker is held.
    WAITING = "waiting"
    #: It rests until somebody resumes it.
    PAUSED = "paused"
    #: It ended with an outcome.
    COMPLETED = "completed"
    #: It ended with ``lastError``.
    FAILED = "failed"
    #: Somebody ended it.
    CANCELLED = "cancelled"


TERMINAL = frozenset({RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.CANCELLED})
#: In the words of the ledger's partial indexes, which serve queries that name these, not those that exclude the rest.
OPEN = tuple(status for status in RunStatus if status not in TERMINAL)


class SegmentKind(enum.StrEnum):
    """What runs and lands as one."""

    #: A Stage's initializer makes its first State.
    INITIALIZE = "initialize"
    #: A Code Step from its beginning.
    STEP = "step"
    #: The rest of a Code Step after a wait.
    CONTINUATION = "continuation"


class AttemptStatus(enum.StrEnum):
    """What became of one attempt at a segment."""

    #: It ended with an outcome (or made a State) and landed.
    COMPLETED = "completed"
    #: It ended in a wait and landed.
    WAITED = "waited"
    #: It raised, timed out or returned nonsense; nothing of it landed.
    FAILED = "failed"
    #: Its worker was lost while it ran: its effects on the world are unknown.
    INDETERMINATE = "indeterminate"
    #: The Run was cancelled while it ran; nothing of it landed.
    CANCELLED = "cancelled"


class RunErrorCode(enum.StrEnum):
    """``lastError.code`` (E2)."""

    RUN_INTERRUPTED = "RUN_INTERRUPTED"
    STEP_FAILED = "STEP_FAILED"
    STEP_TIMEOUT = "STEP_TIMEOUT"
    STEP_OUTCOME_NOT_HANDLED = "STEP_OUTCOME_NOT_HANDLED"
    STEP_RESULT_INVALID = "STEP_RESULT_INVALID"
    STATE_INVALID = "STATE_INVALID"
    LOOP_LIMIT = "LOOP_LIMIT"
    AGENT_OUTPUT_INVALID = "AGENT_OUTPUT_INVALID"
    AGENT_FAILED = "AGENT_FAILED"
    MODEL_REQUEST_FAILED = "MODEL_REQUEST_FAILED"
    RELEASE_UNAVAILABLE = "RELEASE_UNAVAILABLE"
    FORBIDDEN = "FORBIDDEN"


class EventType(enum.StrEnum):
    """The closed list of what can happen to a Run (R16)."""

    RUN_ADMITTED = "RunAdmitted"
    #: It began paused at a boundary of another Run, or at one that a Mirror holds.
    RUN_FORKED = "RunForked"
    RUN_RESTORED = "RunRestored"
    #: A worker took the lease.
    RUN_DISPATCHED = "RunDispatched"
    STAGE_INITIALIZED = "StageInitialized"
    STEP_COMPLETED = "StepCompleted"
    STEP_WAITED = "StepWaited"
    #: An attempt failed; another one is due.
    STEP_RETRIED = "StepRetried"
    #: A worker was lost; the segment is due again.
    STEP_INTERRUPTED = "StepInterrupted"
    ACTION_ANSWERED = "ActionAnswered"
    #: An Agent Step waits for an external agent.
    AGENT_CALL_OPENED = "AgentCallOpened"
    AGENT_CALL_CLAIMED = "AgentCallClaimed"
    TOOL_CALL_STARTED = "ToolCallStarted"
    #: A Tool call ended, or was cut off; its receipt, input and output.
    TOOL_CALL_SETTLED = "ToolCallSettled"
    AGENT_CALL_CLOSED = "AgentCallClosed"
    PAUSE_REQUESTED = "PauseRequested"
    RUN_PAUSED = "RunPaused"
    RUN_RESUMED = "RunResumed"
    RUN_COMPLETED = "RunCompleted"
    RUN_FAILED = "RunFailed"
    RUN_CANCELLED = "RunCancelled"
