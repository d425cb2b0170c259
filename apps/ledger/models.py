"""Service instances, Operations and events: the append-only side of the ledger."""

from __future__ import annotations

from django.db import models

from apps.core import clock
from apps.core.fields import JsonTextField
from apps.core.ids import new_id
from apps.ledger.domain.receipts import Effect, OperationKind, ReceiptStatus


class ServiceInstance(models.Model):
    """One lifetime of the service.  ``current`` is True for one row and NULL for all others."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    opened_at = models.DateTimeField(default=clock.now, editable=False)
    ended_at = models.DateTimeField(null=True, editable=False)
    version = models.CharField(max_length=40, editable=False)
    current = models.BooleanField(null=True, unique=True, editable=False)

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return str(self.id)


class Operation(models.Model):
    """One admitted write and its receipt; also the audit trail (O4, O10, K25)."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    instance = models.ForeignKey(ServiceInstance, on_delete=models.PROTECT, db_index=False)
    project = models.ForeignKey("access.Project", on_delete=models.PROTECT, db_index=False)
    operation_id = models.UUIDField()
    kind = models.CharField(max_length=16, choices=[(k.value, k.value) for k in OperationKind])
    parameters_digest = models.CharField(max_length=64)
    entry = models.CharField(max_length=64)
    source = models.CharField(max_length=16)
    principal = models.CharField(max_length=200)
    status = models.CharField(max_length=16, choices=[(s.value, s.value) for s in ReceiptStatus])
    effect = models.CharField(max_length=8, choices=[(e.value, e.value) for e in Effect], blank=True)
    run_id = models.UUIDField(null=True)
    revision_before = models.BigIntegerField(null=True)
    revision_after = models.BigIntegerField(null=True)
    error = JsonTextField(null=True)
    created_at = models.DateTimeField()
    #: By the database's clock: past it, a row that is still pending was never applied.
    pending_until = models.DateTimeField()
    decided_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(fields=["instance", "project", "operation_id"], name="operation_identity"),
        ]
        indexes = [
            models.Index(fields=["pending_until"], name="operation_pending", condition=models.Q(status="pending")),
            models.Index(fields=["run_id", "id"], name="operation_of_run"),
            models.Index(fields=["operation_id"], name="operation_by_client_id"),
            models.Index(fields=["-id"], name="operation_unknown", condition=models.Q(status="indeterminate")),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.operation_id}"


class Event(models.Model):
    """One thing that happened to a Run, numbered 1..n without gaps (R16)."""

    run_id = models.UUIDField()
    seq = models.PositiveIntegerField()
    type = models.CharField(max_length=40)
    at = models.DateTimeField()
    data = JsonTextField()

    class Meta:
        ordering = ["run_id", "seq"]
        constraints = [models.UniqueConstraint(fields=["run_id", "seq"], name="event_number")]

    def __str__(self) -> str:
        return f"{self.run_id} {self.seq} {self.type}"
