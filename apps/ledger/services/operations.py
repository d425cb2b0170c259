"""Two-phase admission: the identity is stored first, then the effect and the verdict land together (O1–O6)."""

from __future__ import annotations

import datetime as dt
import logging
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.db import transaction

from apps.core import conf, json_text
from apps.core.caller import Caller
from apps.core.database import database_now, database_time_after, for_update
from apps.core.errors import ErrorCode, LoomError
from apps.core.failpoints import Failpoint, reach
from apps.ledger.contracts import Identity, Receipt
from apps.ledger.domain import receipts
from apps.ledger.domain.receipts import Effect, Fingerprint, OperationKind, ReceiptStatus
from apps.ledger.models import Operation
from apps.ledger.selectors.instances import hold_current, instance_changed, require_current
from apps.ledger.selectors.operations import find_operation, receipt_of

logger = logging.getLogger("loomsvc.ledger")


@dataclass(frozen=True, slots=True)
class Applied:
    """What an effect did: to which Run, whether it changed anything, and its revisions before and after."""

    run_id: uuid.UUID
    effect: Effect = Effect.APPLIED
    revision_before: int | None = None
    revision_after: int | None = None


#: Runs inside the admitting transaction; raises :class:`LoomError` for a refusal of the business.
EffectFunction = Callable[[], Applied]


def perform(
    *,
    caller: Caller,
    kind: OperationKind,
    request: Identity,
    effect: EffectFunction,
    now: dt.datetime,
    check: Callable[[], None] = lambda: None,
    run_id: uuid.UUID | None = None,
) -> Receipt:
    """Admit one Operation and return its receipt, decided or (another request's) still pending.

    ``check`` asks what Loom or Action demand of the parameters and raises ``INVALID_REQUEST``, before
    anything is stored; ``run_id`` is the Run that the request names.  Order of checks as in O6.
    Raises ``INSTANCE_CHANGED`` and ``CONFLICT`` with nothing applied; a refusal of the business is a
    stored ``rejected`` receipt.
    """
    instance = require_current(request.service_instance_id)
    asked = receipts.fingerprint(kind=kind, parameters=request.parameters(), entry=caller.entry)
    operation_id = uuid.UUID(request.operation_id)
    known = find_operation(project_id=caller.project_id, instance_id=instance.id, operation_id=operation_id)
    if known is not None:
        return receipt_of(_same_or_conflict(known, asked))
    check()
    stored = _store_identity(caller, instance.id, operation_id, asked, now)
    if stored is None:
        known = find_operation(project_id=caller.project_id, instance_id=instance.id, operation_id=operation_id)
        if known is None:
            raise LoomError(ErrorCode.UNAVAILABLE, "The ledger could not store the operation; try again.")
        return receipt_of(_same_or_conflict(known, asked))
    reach(Failpoint.AFTER_RECEIPT_INSERT)
    return receipt_of(_decide(stored, effect, run_id, now))


def find_known(
    *, caller: Caller, kind: OperationKind, request: Identity, parameters: dict[str, Any] | None = None
) -> Receipt | None:
    """The receipt that this identity has already; ``None`` when nothing came in under it.

    ``parameters`` are compared when they are given: all of them, or ``None`` where one is yet to come.
    Raises ``INSTANCE_CHANGED``, and ``CONFLICT`` when it was used for something else (O2, O3).
    """
    instance = require_current(request.service_instance_id)
    known = find_operation(
        project_id=caller.project_id, instance_id=instance.id, operation_id=uuid.UUID(request.operation_id)
    )
    if known is None:
        return None
    digest = known.parameters_digest if parameters is None else json_text.digest(parameters)
    return receipt_of(_same_or_conflict(known, Fingerprint(kind, digest, caller.entry)))


def _same_or_conflict(known: Operation, asked: Fingerprint) -> Operation:
    stored = Fingerprint(OperationKind(known.kind), known.parameters_digest, known.entry)
    if differs := receipts.difference(stored, asked):
        raise LoomError(
            ErrorCode.CONFLICT,
            f"operationId {known.operation_id} is taken: {differs}. Nothing was applied; make a new operationId.",
        )
    return known


def _store_identity(
    caller: Caller, instance_id: uuid.UUID, operation_id: uuid.UUID, asked: Fingerprint, now: dt.datetime
) -> Operation | None:
    """The pending row, or ``None`` when another request stored this identity first."""
    operation = Operation(
        instance_id=instance_id,
        project_id=caller.project_id,
        operation_id=operation_id,
        kind=asked.kind,
        parameters_digest=asked.parameters_digest,
        entry=caller.entry,
        source=caller.source,
        principal=caller.principal,
        status=ReceiptStatus.PENDING,
        created_at=now,
        pending_until=database_time_after(conf.settings().pending_seconds),
    )
    with transaction.atomic():
        Operation.objects.bulk_create([operation], ignore_conflicts=True)
    # With ON CONFLICT DO NOTHING no database says whether the row is ours; its key does.
    return Operation.objects.filter(pk=operation.pk).first()


def _decide(operation: Operation, effect: EffectFunction, run_id: uuid.UUID | None, now: dt.datetime) -> Operation:
    try:
        with transaction.atomic():
            current = hold_current(operation.instance_id)
            row = for_update(Operation.objects.filter(pk=operation.pk)).get()
            if row.status != ReceiptStatus.PENDING:
                return row
            if not current:
                raise instance_changed("read it from status")
            applied = effect()
            row.status = ReceiptStatus.ACCEPTED
            row.effect = applied.effect
            row.run_id = applied.run_id
            row.revision_before = applied.revision_before
            row.revision_after = applied.revision_after
            row.decided_at = now
            row.save(update_fields=["status", "effect", "run_id", "revision_before", "revision_after", "decided_at"])
            reach(Failpoint.BEFORE_COMMIT)
        return row
    except LoomError as refusal:
        return _reject(operation.pk, refusal, None if refusal.code is ErrorCode.NOT_FOUND else run_id, now)


def _reject(key: uuid.UUID, refusal: LoomError, run_id: uuid.UUID | None, now: dt.datetime) -> Operation:
    with transaction.atomic():
        row = for_update(Operation.objects.filter(pk=key)).get()
        if row.status == ReceiptStatus.PENDING:
            row.status = ReceiptStatus.REJECTED
            row.error = refusal.to_wire()
            row.run_id = run_id
            row.decided_at = now
            row.save(update_fields=["status", "error", "run_id", "decided_at"])
    return row


def settle_stale_receipts(*, now: dt.datetime, limit: int = 200) -> int:
    """Reject what has been pending for too long: still pending under its lock, it was never applied (O5)."""
    with transaction.atomic():
        stale = Operation.objects.filter(status=ReceiptStatus.PENDING, pending_until__lt=database_now())
        rows = list(for_update(stale.order_by("pending_until")[:limit], skip_locked=True))
        error = LoomError(
            ErrorCode.UNAVAILABLE,
            "The service stopped before it decided this operation; nothing was applied. Submit it again under a new "
            "operationId.",
        ).to_wire()
        for row in rows:
            row.status, row.error, row.decided_at = ReceiptStatus.REJECTED, error, now
        Operation.objects.bulk_update(rows, ["status", "error", "decided_at"])
    if rows:
        logger.warning("settled %d receipts that were left pending", len(rows))
    return len(rows)
