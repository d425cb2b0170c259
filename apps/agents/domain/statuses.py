"""Where an agent call and a Tool call can stand (contract section 7)."""

from __future__ import annotations

import enum

#: Receipts that a task may have (A5).
MAX_RECEIPTS = 256
#: How long the receipts of a closed call stay in the protocol (A5).
RECEIPT_SECONDS = 30 * 60


class ClosedAs(enum.StrEnum):
    """How an agent call ended."""

    #: Its output was accepted.
    COMPLETED = "completed"
    #: Its agent gave up, or its Step's time was over.
    FAILED = "failed"
    #: Its Run was cancelled.
    CANCELLED = "cancelled"
    #: The service instance ended while it was claimed.
    INTERRUPTED = "interrupted"


class ToolStatus(enum.StrEnum):
    """What became of a Tool call."""

    #: Its function runs, under a lease that is renewed.
    RUNNING = "running"
    #: It returned; its output and its State change are stored.
    COMPLETED = "completed"
    #: It raised or took too long; nothing of it is in the State.
    FAILED = "failed"
    #: It was cut off: what it did outside the ledger is unknown, and it is never run again.
    INDETERMINATE = "indeterminate"
