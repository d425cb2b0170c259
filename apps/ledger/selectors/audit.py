"""The audit trail: every admitted write with who made it, newest first (O4, O10, K25)."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Collection
from dataclasses import dataclass

from django.db.models import Q, QuerySet, TextField
from django.db.models.functions import Cast

from apps.core import cursors
from apps.ledger.models import Operation, ServiceInstance

#: Operations looked through for one page; filters pick from these, so that a page costs the same in any ledger.
WINDOW = 2000


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One Operation: what was asked by whom, and what became of it."""

    operation_id: uuid.UUID
    instance_id: uuid.UUID
    project: str
    kind: str
    status: str
    effect: str
    run_id: uuid.UUID | None
    revision_before: int | None
    revision_after: int | None
    principal: str
    source: str
    entry: str
    error: dict[str, object] | None
    created_at: dt.datetime
    decided_at: dt.datetime | None


@dataclass(frozen=True, slots=True)
class AuditPage:
    """``looked_through`` is how many Operations the entries were picked from."""

    entries: list[AuditEntry]
    next_cursor: str | None
    looked_through: int


@dataclass(frozen=True, slots=True)
class InstanceEntry:
    """One lifetime of the service."""

    id: uuid.UUID
    opened_at: dt.datetime
    ended_at: dt.datetime | None
    version: str
    is_current: bool


_FIELDS = (
    "operation_id", "instance_id", "project__name", "kind", "status", "effect", "run_id", "revision_before",
    "revision_after", "principal", "source", "entry", "error", "created_at", "decided_at",
)  # fmt: skip


def audit_page(
    *,
    project_ids: Collection[uuid.UUID],
    kind: str = "",
    status: str = "",
    principal: str = "",
    limit: int = 50,
    cursor: str | None = None,
) -> AuditPage:
    """A keyset page in two statements; a page may be short and yet go on."""
    filters = {"kind": kind, "status": status, "principal": principal}
    after = cursors.decode("audit", filters, cursor, uuid.UUID)
    rows = Operation.objects.order_by("-id")
    if after is not None:
        rows = rows.filter(id__lt=after)
    window = list(rows.values_list("id", flat=True)[:WINDOW])
    if not window:
        return AuditPage([], None, 0)
    found = _matching(rows.filter(id__gte=window[-1], project_id__in=project_ids), kind, status, principal)
    page = list(found.values_list("id", *_FIELDS)[: limit + 1])
    shown = page[:limit]
    last = shown[-1][0] if len(page) > limit else window[-1] if len(window) == WINDOW else None
    return AuditPage(
        entries=[AuditEntry(*row[1:]) for row in shown],
        next_cursor=cursors.encode("audit", filters, str(last)) if last else None,
        looked_through=len(window),
    )


def _matching(rows: QuerySet[Operation], kind: str, status: str, principal: str) -> QuerySet[Operation]:
    if kind:
        rows = rows.filter(kind=kind)
    if status:
        rows = rows.filter(status=status)
    if principal:
        # The name alone finds whoever is called so, of whatever kind: an operator, a credential.
        rows = rows.filter(Q(principal=principal) | Q(principal__endswith=f":{principal}"))
    return rows


def operations_named(*, project_ids: Collection[uuid.UUID], operation_id: uuid.UUID, limit: int) -> list[AuditEntry]:
    """All Operations of this id, one for each Project and instance at most, newest first."""
    rows = Operation.objects.filter(operation_id=operation_id, project_id__in=project_ids).order_by("-id")
    return [AuditEntry(*row) for row in rows.values_list(*_FIELDS)[:limit]]


def operations_ending(*, project_ids: Collection[uuid.UUID], end: str, limit: int) -> list[AuditEntry]:
    """Operations whose operationId ends like this, of the newest :data:`WINDOW` of the ledger, newest first."""
    window = list(Operation.objects.order_by("-id").values_list("id", flat=True)[:WINDOW])
    if not window:
        return []
    rows = Operation.objects.filter(id__gte=window[-1], project_id__in=project_ids).order_by("-id")
    rows = rows.alias(id_text=Cast("operation_id", TextField())).filter(id_text__endswith=end)
    return [AuditEntry(*row) for row in rows.values_list(*_FIELDS)[:limit]]


def latest_instances(*, limit: int) -> list[InstanceEntry]:
    """Lifetimes of the service, the newest first."""
    rows = ServiceInstance.objects.order_by("-id").values_list("id", "opened_at", "ended_at", "version", "current")
    return [InstanceEntry(*row[:4], is_current=bool(row[4])) for row in rows[:limit]]
