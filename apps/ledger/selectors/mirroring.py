"""A Run's events and Operations as a Mirror has them, read a few rows at a time (M1)."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterator
from typing import Any

from apps.core import clock
from apps.ledger.domain.receipts import Effect, ReceiptStatus
from apps.ledger.models import Event, Operation

#: Rows that are held at once: each may have values of a megabyte.
_ROWS = 20


def event_lines(run_id: uuid.UUID, *, up_to: int, types: Collection[str] | None = None) -> Iterator[dict[str, Any]]:
    """Events with numbers up to ``up_to``, in order; of some types, when they are given."""
    rows = Event.objects.filter(run_id=run_id, seq__lte=up_to).order_by("seq")
    if types is not None:
        rows = rows.filter(type__in=list(types))
    for seq, kind, at, data in rows.values_list("seq", "type", "at", "data").iterator(chunk_size=_ROWS):
        yield {"seq": seq, "type": kind, "at": clock.to_wire(at), "data": data}


def operation_lines(run_id: uuid.UUID) -> Iterator[dict[str, Any]]:
    """Every Operation that changed the Run, in the order in which they did."""
    rows = Operation.objects.filter(run_id=run_id, status=ReceiptStatus.ACCEPTED, effect=Effect.APPLIED)
    for row in rows.order_by("revision_after").iterator(chunk_size=_ROWS):
        yield {
            "operationId": str(row.operation_id),
            "serviceInstanceId": str(row.instance_id),
            "kind": row.kind,
            "parametersDigest": row.parameters_digest,
            "entry": row.entry,
            "source": row.source,
            "principal": row.principal,
            "revision": row.revision_after,
            "createdAt": clock.to_wire(row.created_at),
            "decidedAt": clock.to_wire(row.decided_at or row.created_at),
        }
