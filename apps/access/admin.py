"""Projects and credentials, to look at.  A credential's secret is not kept and its digest not shown (N2)."""

from __future__ import annotations

from django.contrib import admin

from apps.access.models import Credential, Project
from apps.core.admin import ReadOnlyAdmin


@admin.register(Project)
class ProjectAdmin(ReadOnlyAdmin):
    list_display = ("name", "id", "created_at")
    fields = ("id", "name", "created_at")
    search_fields = ("=id", "^name")
    ordering = ("name",)


@admin.register(Credential)
class CredentialAdmin(ReadOnlyAdmin):
    list_display = ("label", "public_id", "project", "source", "last_used_at", "expires_at", "revoked_at")
    list_filter = ("source", "project")
    list_select_related = ("project",)
    fields = (
        "id",
        "public_id",
        "label",
        "project",
        "source",
        "created_at",
        "last_used_at",
        "expires_at",
        "revoked_at",
    )
    search_fields = ("=id", "=public_id", "label")
    ordering = ("-id",)
