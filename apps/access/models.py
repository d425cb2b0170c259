"""Projects and the credentials that open them."""

from __future__ import annotations

import uuid

from django.core.validators import RegexValidator
from django.db import models

from apps.access.domain.credentials import LONGEST_LABEL
from apps.core import clock
from apps.core.caller import Source
from apps.core.ids import new_id

PROJECT_NAME = RegexValidator(
    r"^[a-z0-9][a-z0-9_-]{0,62}\Z", "Use 1 to 63 lower-case letters, digits, - and _, starting with one of the former."
)


class Project(models.Model):
    """The namespace that Runs, results, Mirrors and credentials belong to."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    name = models.CharField(max_length=63, unique=True, validators=[PROJECT_NAME])
    created_at = models.DateTimeField(default=clock.now, editable=False)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class Credential(models.Model):
    """One bearer credential: a home Project, one source, and the digest of its secret (N2, K1)."""

    id: models.UUIDField[uuid.UUID, uuid.UUID] = models.UUIDField(primary_key=True, default=new_id, editable=False)
    public_id = models.CharField(max_length=12, unique=True, editable=False)
    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="credentials")
    source = models.CharField(max_length=16, choices=[(s.value, s.value) for s in Source])
    #: Further Projects into which it may write Mirrors, and whose Mirrors it sees (N1, M6).
    mirror_projects = models.ManyToManyField(Project, related_name="+", blank=True)
    label = models.CharField(max_length=LONGEST_LABEL)
    secret_digest = models.CharField(max_length=64, editable=False)
    created_at = models.DateTimeField(default=clock.now, editable=False)
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)
    #: To the hour: enough to find unused credentials, little enough to cost no write per call.
    last_used_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["id"]

    def __str__(self) -> str:
        return f"{self.label} ({self.public_id})"
