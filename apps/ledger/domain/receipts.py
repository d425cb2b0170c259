"""What a client is told about an Operation, and when two requests are the same one (O3–O5)."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any

from apps.core import json_text


class OperationKind(enum.StrEnum):
    """The writes that share the operations ledger (O1)."""

    RUN = "run"
    ANSWER_ASK = "answer_ask"
    CANCEL_RUN = "cancel_run"
    PAUSE_RUN = "pause_run"
    RESUME_RUN = "resume_run"
    FORK_RUN = "fork_run"
    INTERACT = "interact"


class ReceiptStatus(enum.StrEnum):
    """What is known of an Operation's effect."""

    #: The identity is stored; nothing has been decided yet.
    PENDING = "pending"
    #: Admitted; its effect and this status landed in one transaction.
    ACCEPTED = "accepted"
    #: Refused; nothing was applied, and the error says why.
    REJECTED = "rejected"
    #: The evidence cannot tell whether it was applied; it must not be submitted anew.
    INDETERMINATE = "indeterminate"


class Effect(enum.StrEnum):
    """Whether an accepted Operation changed anything."""

    APPLIED = "applied"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What must be equal for a second request under one identity to be the same request (O3)."""

    kind: OperationKind
    parameters_digest: str
    entry: str


def fingerprint(*, kind: OperationKind, parameters: dict[str, Any], entry: str) -> Fingerprint:
    """``parameters``: validated, defaults filled, without the two identity fields."""
    return Fingerprint(kind, json_text.digest(parameters), entry)


def difference(stored: Fingerprint, asked: Fingerprint) -> str | None:
    """In words, what differs between a stored request and one under the same identity; ``None``: nothing."""
    if stored.kind != asked.kind:
        return f"it was used for {stored.kind.value}"
    if stored.entry != asked.entry:
        return f"it was used at the Entry {stored.entry}"
    if stored.parameters_digest != asked.parameters_digest:
        return "it was used with other parameters"
    return None
