"""Releases: each content of a Loom package that this service has ever loaded, with its files."""

from __future__ import annotations

from django.db import models

from apps.core import clock
from apps.core.fields import JsonTextField


class Release(models.Model):
    """One immutable content of a Loom package; Runs are pinned to it by its digest."""

    digest = models.CharField(max_length=64, primary_key=True, editable=False)
    loom_name = models.CharField(max_length=64, editable=False)
    #: Distribution → the installed version that the digest covers.
    requires: models.TextField[dict[str, str], dict[str, str]] = JsonTextField(editable=False)
    created_at = models.DateTimeField(default=clock.now, editable=False)
    #: When its folder last became the one that new Runs take.
    loaded_at = models.DateTimeField(default=clock.now, editable=False)
    #: False for one that came in a Mirror, until an operator has said that its Code may run (M7).
    trusted = models.BooleanField(default=True, editable=False)

    class Meta:
        ordering = ["loom_name", "-loaded_at", "digest"]
        indexes = [models.Index(fields=["loom_name", "-loaded_at"], name="release_newest")]

    def __str__(self) -> str:
        return f"{self.loom_name} {self.digest[:12]}"


class ReleaseFile(models.Model):
    """One file of a Release; ``path`` is inside the package, with ``/``."""

    release = models.ForeignKey(Release, on_delete=models.CASCADE, related_name="files")
    path = models.CharField(max_length=200, editable=False)
    content = models.BinaryField(editable=False)

    class Meta:
        ordering = ["path"]
        constraints = [models.UniqueConstraint(fields=["release", "path"], name="release_file_once")]

    def __str__(self) -> str:
        return self.path
