"""Mirrors and what they put where, to look at."""

from __future__ import annotations

from django.contrib import admin

from apps.core.admin import ReadOnlyAdmin
from apps.mirrors.models import Mirror, Placement


@admin.register(Mirror)
class MirrorAdmin(ReadOnlyAdmin):
    list_display = ("mirror_id", "project", "loom_name", "run_id", "boundary", "kind", "size_bytes", "created_at")
    list_filter = ("kind", "project")
    list_select_related = ("project",)
    fields = tuple(field.name for field in Mirror._meta.concrete_fields)
    search_fields = ("=mirror_id", "=run_id", "=trace_id", "=digest")
    ordering = ("-id",)


@admin.register(Placement)
class PlacementAdmin(ReadOnlyAdmin):
    list_display = ("item_id", "kind", "project", "mirror_id", "revision", "principal", "created_at")
    list_filter = ("kind", "project")
    list_select_related = ("project",)
    fields = tuple(field.name for field in Placement._meta.concrete_fields)
    search_fields = ("=mirror_id", "=trace_id")
    ordering = ("-id",)
