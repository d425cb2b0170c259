"""Mirrors that a Project holds, and what each has once put into which Project."""

from __future__ import annotations

from django.db import models

from apps.core.fields import JsonTextField
from apps.core.ids import new_id


class Mirror(models.Model):
    """One Mirror in one Project; its file lies in the storage, under its digest (M1, M2)."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    #: UUIDv5 of the Project's id and the digest: the same content in the same Project is the same Mirror.
    mirror_id = models.UUIDField(unique=True, editable=False)
    project = models.ForeignKey("access.Project", on_delete=models.PROTECT, db_index=False)
    digest = models.CharField(max_length=64, db_index=True)
    trace_id = models.UUIDField()
    run_id = models.UUIDField()
    loom_name = models.CharField(max_length=64)
    release_digest = models.CharField(max_length=64)
    boundary = models.PositiveIntegerField()
    kind = models.CharField(max_length=16, choices=[("exported", "exported"), ("imported", "imported")])
    #: Of the file.
    size_bytes = models.PositiveBigIntegerField()
    manifest = JsonTextField()
    # Who had it made or taken in (O10).
    principal = models.CharField(max_length=200)
    source = models.CharField(max_length=16)
    entry = models.CharField(max_length=64)
    created_at = models.DateTimeField()

    class Meta:
        ordering = ["-id"]
        indexes = [
            models.Index(fields=["project", "-id"], name="mirror_list"),
            models.Index(fields=["trace_id", "-id"], name="mirror_of_trace"),
        ]

    def __str__(self) -> str:
        return f"{self.loom_name} {self.mirror_id}"


class Placement(models.Model):
    """An Artifact or Record that a Mirror put into a Project (M5).

    It outlives whatever becomes of it there: restoring the Mirror again leaves it as it is.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    project = models.ForeignKey("access.Project", on_delete=models.PROTECT, db_index=False)
    mirror_id = models.UUIDField()
    trace_id = models.UUIDField()
    kind = models.CharField(max_length=16, choices=[("artifact", "artifact"), ("record", "record")])
    item_id = models.CharField(max_length=200)
    #: Of an Artifact: where it stands, and as which revision.
    loom_name = models.CharField(max_length=64)
    stage_name = models.CharField(max_length=64)
    revision = models.PositiveBigIntegerField(null=True)
    # Who had it put there (O10).
    principal = models.CharField(max_length=200)
    source = models.CharField(max_length=16)
    entry = models.CharField(max_length=64)
    created_at = models.DateTimeField()

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(fields=["project", "mirror_id", "kind", "item_id"], name="placed_once"),
        ]
        indexes = [models.Index(fields=["project", "loom_name", "stage_name", "revision"], name="placed_at")]

    def __str__(self) -> str:
        return f"{self.kind} {self.item_id}"
