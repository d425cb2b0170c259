"""Reads of receipts."""

from __future__ import annotations

import uuid

from apps.core import clock
from apps.ledger.contracts import Receipt
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
