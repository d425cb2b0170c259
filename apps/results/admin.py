"""Artifacts, their revisions and Records, to look at."""

from __future__ import annotations

from django.contrib import admin

from apps.core.admin import ReadOnlyAdmin
from apps.results.models import Artifact, ArtifactRevision, Record


@admin.register(Artifact)
class ArtifactAdmin(ReadOnlyAdmin):
    list_display = ("artifact_id", "loom_name", "stage_name", "revision", "project", "updated_at")
    list_filter = ("project",)
    list_select_related = ("project",)
    fields = (
        "id",
        "artifact_id",
        "project",
        "loom_name",
        "stage_name",
        "revision",
        "created_at",
        "updated_at",
    )
    search_fields = ("=id", "=artifact_id", "=loom_name")
    ordering = ("-id",)


@admin.register(ArtifactRevision)
class ArtifactRevisionAdmin(ReadOnlyAdmin):
    list_display = ("artifact_id_then", "revision", "removed", "run_id", "created_at")
    fields = ("id", "artifact", "artifact_id_then", "revision", "removed", "digest", "run_id", "created_at", "data")
    search_fields = ("=id", "=artifact_id_then", "=run_id")
    ordering = ("-id",)


@admin.register(Record)
class RecordAdmin(ReadOnlyAdmin):
    list_display = ("record_id", "loom_name", "stage_name", "project", "run_id", "created_at")
    list_filter = ("project",)
    list_select_related = ("project",)
    fields = ("id", "record_id", "project", "loom_name", "stage_name", "digest", "run_id", "created_at", "data")
    search_fields = ("=id", "=record_id", "=run_id", "=loom_name")
    ordering = ("-id",)
