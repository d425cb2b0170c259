"""Artifacts with every revision, and Records."""

from __future__ import annotations

from django.db import models

from apps.core.fields import JsonTextField
from apps.core.ids import new_id

#: Ids that Code may choose: 1 to 200 printable characters.
RESULT_ID_LENGTH = 200


class Artifact(models.Model):
    """A place (Project, loomName, stageName) and what stands there now (S1, S4).

    The row outlives a removal, so that the place's revisions go on; ``artifact_id`` is NULL while
    nothing stands there.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    project = models.ForeignKey("access.Project", on_delete=models.PROTECT, db_index=False)
    loom_name = models.CharField(max_length=64)
    stage_name = models.CharField(max_length=64)
    artifact_id = models.CharField(max_length=RESULT_ID_LENGTH, null=True)
    revision = models.PositiveBigIntegerField(default=0)
    created_at = models.DateTimeField(null=True)
    updated_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["project", "artifact_id"]
        constraints = [
            models.UniqueConstraint(fields=["project", "loom_name", "stage_name"], name="artifact_place"),
            models.UniqueConstraint(fields=["project", "artifact_id"], name="artifact_id_in_project"),
        ]

    def __str__(self) -> str:
        return self.artifact_id or f"{self.loom_name}/{self.stage_name} (removed)"


class ArtifactRevision(models.Model):
    """One revision of a place, for ever; a removal is a revision without data."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    artifact = models.ForeignKey(Artifact, on_delete=models.PROTECT, related_name="revisions", db_index=False)
    revision = models.PositiveBigIntegerField()
    artifact_id_then = models.CharField(max_length=RESULT_ID_LENGTH)
    data = JsonTextField()
    digest = models.CharField(max_length=64)
    removed = models.BooleanField(default=False)
    run_id = models.UUIDField()
    created_at = models.DateTimeField()

    class Meta:
        ordering = ["artifact", "revision"]
        constraints = [models.UniqueConstraint(fields=["artifact", "revision"], name="artifact_revision")]
        indexes = [
            models.Index(fields=["run_id"], name="artifact_revision_of_run"),
            models.Index(fields=["artifact_id_then", "-revision", "-id"], name="artifact_revision_by_id"),
        ]

    def __str__(self) -> str:
        return f"{self.artifact_id_then} revision {self.revision}"


class Record(models.Model):
    """An immutable result entry (S3)."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    project = models.ForeignKey("access.Project", on_delete=models.PROTECT, db_index=False)
    record_id = models.CharField(max_length=RESULT_ID_LENGTH)
    loom_name = models.CharField(max_length=64)
    stage_name = models.CharField(max_length=64)
    data = JsonTextField()
    digest = models.CharField(max_length=64)
    run_id = models.UUIDField()
    created_at = models.DateTimeField()

    class Meta:
        ordering = ["project", "record_id"]
        constraints = [models.UniqueConstraint(fields=["project", "record_id"], name="record_id_in_project")]
        indexes = [
            models.Index(fields=["project", "loom_name", "stage_name", "-id"], name="record_latest"),
            models.Index(fields=["run_id"], name="record_of_run"),
        ]

    def __str__(self) -> str:
        return self.record_id
