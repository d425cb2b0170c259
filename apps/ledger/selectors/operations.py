"""Reads of receipts."""

from __future__ import annotations

import uuid
from collections.abc import Collection
from dataclasses import dataclass

from apps.core import clock
from apps.ledger.contracts import Receipt
from apps.ledger.domain.receipts import ReceiptStatus
from apps.ledger.models import Operation


def receipt_of(operation: Operation) -> Receipt:
    """A stored Operation as its receipt."""
    return Receipt.model_validate(
        {
            "operation_id": str(operation.operation_id),
            "service_instance_id": str(operation.instance_id),
            "kind": operation.kind,
            "status": operation.status,
            "effect": operation.effect or None,
            "run_id": str(operation.run_id) if operation.run_id else None,
            "error": operation.error,
            "created_at": clock.to_wire(operation.created_at),
            "decided_at": clock.to_wire(operation.decided_at) if operation.decided_at else None,
        }
    )


def find_operation(*, project_id: uuid.UUID, instance_id: uuid.UUID, operation_id: uuid.UUID) -> Operation | None:
    """The Operation of this identity in this Project."""
    return Operation.objects.filter(instance_id=instance_id, project_id=project_id, operation_id=operation_id).first()


@dataclass(frozen=True, slots=True)
class OperationEntry:
    """A receipt with who asked, where they came in, and the Run's revisions before and after (O10)."""

    receipt: Receipt
    project_id: uuid.UUID
    principal: str
    source: str
    entry: str
    revision_before: int | None
    revision_after: int | None


def _entry(row: Operation) -> OperationEntry:
    return OperationEntry(
        receipt=receipt_of(row),
        project_id=row.project_id,
        principal=row.principal,
        source=row.source,
        entry=row.entry,
        revision_before=row.revision_before,
        revision_after=row.revision_after,
    )


def operations_of_run(*, project_id: uuid.UUID, run_id: uuid.UUID, limit: int) -> list[OperationEntry]:
    """The newest Operations on a Run, newest first."""
    rows = Operation.objects.filter(run_id=run_id, project_id=project_id).order_by("-id")
    return [_entry(row) for row in rows[:limit]]


def indeterminate_operations(*, project_ids: Collection[uuid.UUID], limit: int) -> list[OperationEntry]:
    """Operations of which nobody knows whether they were applied (O5), newest first."""
    rows = Operation.objects.filter(status=ReceiptStatus.INDETERMINATE, project_id__in=project_ids).order_by("-id")
    return [_entry(row) for row in rows[:limit]]


def runs_of_operation(*, project_id: uuid.UUID, operation_id: uuid.UUID) -> list[uuid.UUID]:
    """The Runs that Operations of this id were about, one for each instance at most."""
    rows = Operation.objects.filter(operation_id=operation_id, project_id=project_id, run_id__isnull=False)
    return [run_id for run_id in rows.values_list("run_id", flat=True) if run_id is not None]
