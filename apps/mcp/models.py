"""The ``initialize`` era's sessions and waits: what any web process must know of a client between its requests."""

from __future__ import annotations

import uuid

from django.db import models

from apps.core.fields import JsonTextField
from apps.core.ids import new_id


class Session(models.Model):
    """One client's session at one Entry, found by the digest of the id that only the client has (N5)."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    digest = models.CharField(max_length=64, unique=True, editable=False)
    credential = models.ForeignKey("access.Credential", on_delete=models.CASCADE, db_index=False)
    entry = models.CharField(max_length=64)
    version = models.CharField(max_length=16)
    #: Whether the client declared that it can show a form to its human.
    shows_forms = models.BooleanField()
    created_at = models.DateTimeField()
    #: Moves on with use, up to the longest life of a session.
    expires_at = models.DateTimeField(db_index=True)

    class Meta:
        ordering = ["-id"]
        indexes = [models.Index(fields=["credential", "expires_at"], name="session_of_credential")]

    def __str__(self) -> str:
        return str(self.id)


class Wait(models.Model):
    """One form that a client was asked to show, and what it said; removed when its call is over (H4).

    The key is the id of the request to the client, under which the answer comes back, at whichever web process.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    session = models.ForeignKey(Session, on_delete=models.CASCADE)
    #: Digest of the id of the call that asks, which is what a client cancels.
    call = models.CharField(max_length=64)
    reply = JsonTextField(null=True)
    cancelled = models.BooleanField(default=False)
    created_at = models.DateTimeField(db_index=True)

    class Meta:
        ordering = ["-created_at"]

    def __str__(self) -> str:
        return str(self.id)
