"""Agent calls, and the receipts of what their agents had Tools do (contract section 7)."""

from __future__ import annotations

from django.db import models

from apps.agents.domain.statuses import ClosedAs, ToolStatus
from apps.core.fields import JsonTextField
from apps.core.ids import new_id

NAME_LENGTH = 64
#: The longest ``claimId``, ``toolCallId`` and the like.
CLIENT_ID_LENGTH = 512


class AgentCall(models.Model):
    """One Agent Step waiting for, or owned by, an external agent."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    run = models.ForeignKey("runs.Run", on_delete=models.CASCADE, related_name="agent_calls")
    stage = models.CharField(max_length=NAME_LENGTH)
    step = models.CharField(max_length=NAME_LENGTH)
    visit = models.PositiveIntegerField()
    agent_id = models.CharField(max_length=NAME_LENGTH)
    created_at = models.DateTimeField()
    #: The Step's ``timeout`` by the database's clock (R12).
    timeout_seconds = models.FloatField(null=True)
    deadline_at = models.DateTimeField(null=True)

    # The claim: who owns it.  The ownerToken is derived from these and stored nowhere (A2).
    claim_digest = models.CharField(max_length=64, blank=True)
    claimed_by = models.ForeignKey("access.Credential", on_delete=models.PROTECT, null=True, db_index=False)
    claimed_at = models.DateTimeField(null=True)

    #: Receipts that are stored, settled or not; none once they have left the protocol (A5).
    receipts_made = models.PositiveIntegerField(default=0)
    #: An end Tool completed (A6).
    tools_closed = models.BooleanField(default=False)
    #: What its Tools read, for the Step's attempt.
    reads = JsonTextField(default=list)

    closed_as = models.CharField(max_length=16, choices=[(c.value, c.value) for c in ClosedAs], blank=True)
    closed_at = models.DateTimeField(null=True)
    #: Of the accepted result or failure message, so that a retry is told from another one (A8, A9).
    closing_digest = models.CharField(max_length=64, blank=True)
    #: By the database's clock: when its receipts leave the protocol.  Set once closed and settled (A5).
    receipts_until = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(fields=["run"], condition=models.Q(closed_as=""), name="one_open_call"),
        ]
        indexes = [
            models.Index(fields=["deadline_at"], name="call_deadline", condition=models.Q(closed_as="")),
            models.Index(
                fields=["receipts_until"],
                name="call_receipts_until",
                condition=models.Q(receipts_until__isnull=False, receipts_made__gt=0),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.agent_id} {self.id}"


class ToolReceipt(models.Model):
    """One Tool call of an agent and what became of it (A3)."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    call = models.ForeignKey(AgentCall, on_delete=models.CASCADE, related_name="receipts", db_index=False)
    tool_call_id = models.CharField(max_length=CLIENT_ID_LENGTH)
    tool_id = models.CharField(max_length=NAME_LENGTH)
    input_digest = models.CharField(max_length=64)
    status = models.CharField(max_length=16, choices=[(s.value, s.value) for s in ToolStatus])
    output = JsonTextField(null=True)
    error = JsonTextField(null=True)
    created_at = models.DateTimeField()
    settled_at = models.DateTimeField(null=True)
    #: By the database's clock, renewed while its function runs; NULL once that is over (A11).
    lease_expires_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["call", "id"]
        constraints = [models.UniqueConstraint(fields=["call", "tool_call_id"], name="tool_call_identity")]
        indexes = [
            models.Index(
                fields=["lease_expires_at"],
                name="tool_lease",
                condition=models.Q(lease_expires_at__isnull=False),
            ),
            models.Index(fields=["-id"], name="tool_unknown", condition=models.Q(status="indeterminate")),
        ]

    def __str__(self) -> str:
        return f"{self.tool_id} {self.id}"
