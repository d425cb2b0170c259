"""Receipts on the wire."""

from __future__ import annotations

from typing import Any, Literal

from apps.core.contracts import Contract, UuidText


class Receipt(Contract):
    """The ledger's answer for one Operation (O4)."""

    operation_id: str
    service_instance_id: str
    kind: str
    status: Literal["pending", "accepted", "rejected", "indeterminate"]
    effect: Literal["applied", "none"] | None = None
    run_id: str | None = None
    error: dict[str, Any] | None = None
    created_at: str
    decided_at: str | None = None


class Identity(Contract):
    """What names an Operation; every write carries it (O1)."""

    operation_id: UuidText
    service_instance_id: UuidText

    def parameters(self) -> dict[str, Any]:
        """The validated parameters without the identity, for the digest (O3)."""
        return self.model_dump(mode="json", by_alias=True, exclude={"operation_id", "service_instance_id"})


class GetOperation(Identity):
    """Which receipt is asked for."""


class FoundOperation(Contract):
    """``receipt`` is there with ``found`` only (O7)."""

    status: Literal["found", "not_found", "instance_changed"]
    receipt: Receipt | None = None


class EventView(Contract):
    """One event of a Run (R16)."""

    run_id: str
    seq: int
    type: str
    at: str
    data: dict[str, Any]
