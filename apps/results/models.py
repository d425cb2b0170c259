"""Artifacts with every revision, and Records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db import models

from apps.core.fields import JsonTextField
from apps.core.full_text import WordIndexField
from apps.core.ids import new_id
from apps.results.domain import words

#: Ids that Code may choose: 1 to 200 printable characters.
RESULT_ID_LENGTH = 200

if TYPE_CHECKING:
    _TextField = models.TextField[Any, Any]
    _Rows = models.Manager[Any]
else:
    _TextField = models.TextField
    _Rows = models.Manager


class WordsField(_TextField):
    """The words that a result is found by, cut from its id and its data whenever it is written.

    They go into the same INSERT, whoever makes it, and a trigger takes them into the index from there: a landing
    has no statement more for it.
    """

    if TYPE_CHECKING:
        _pyi_private_set_type: Any
        _pyi_private_get_type: Any

    def __init__(self, *, named_by: str = "", **kwargs: Any) -> None:
        super().__init__(**{**kwargs, "null": True, "editable": False})
        self.named_by = named_by

    def deconstruct(self) -> Any:
        name, path, args, kwargs = super().deconstruct()
        return name, path, args, {**kwargs, "named_by": self.named_by}

    def pre_save(self, model_instance: Any, add: bool) -> str | None:
        texts = [getattr(model_instance, self.named_by), *words.texts_of(model_instance.data)]
        found = None if getattr(model_instance, "removed", False) else words.stored(texts)
        setattr(model_instance, self.attname, found)
        return found


class ResultRows(_Rows):
    """Results without their words, which only searching looks at."""

    def get_queryset(self) -> Any:
        return super().get_queryset().defer("words")


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
    words = WordsField(named_by="artifact_id_then")
    digest = models.CharField(max_length=64)
    removed = models.BooleanField(default=False)
    run_id = models.UUIDField()
    created_at = models.DateTimeField()

    objects = ResultRows()

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
    words = WordsField(named_by="record_id")
    digest = models.CharField(max_length=64)
    run_id = models.UUIDField()
    created_at = models.DateTimeField()

    objects = ResultRows()

    class Meta:
        ordering = ["project", "record_id"]
        constraints = [models.UniqueConstraint(fields=["project", "record_id"], name="record_id_in_project")]
        indexes = [
            models.Index(fields=["project", "loom_name", "stage_name", "-id"], name="record_latest"),
            models.Index(fields=["run_id"], name="record_of_run"),
        ]

    def __str__(self) -> str:
        return self.record_id


class SearchEntry(models.Model):
    """What can be found now: each Record, and what stands at each place.  Triggers write it, nothing else does.

    Its number is SQLite's place in the index of words, and grows with each result of any Project, so it is shown
    to nobody.
    """

    id = models.BigAutoField(primary_key=True)
    project = models.ForeignKey("access.Project", on_delete=models.PROTECT, db_index=False, related_name="+")
    record = models.OneToOneField(Record, on_delete=models.CASCADE, null=True, related_name="+")
    artifact = models.OneToOneField(Artifact, on_delete=models.CASCADE, null=True, related_name="+")
    revision = models.OneToOneField(ArtifactRevision, on_delete=models.CASCADE, null=True, related_name="+")
    word_index = WordIndexField()

    class Meta:
        ordering = ["id"]
        indexes = [models.Index(fields=["project", "-id"], name="search_newest")]

    def __str__(self) -> str:
        return f"entry {self.pk}"
