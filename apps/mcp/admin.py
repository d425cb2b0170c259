"""Sessions of MCP clients, to look at.  The id that a client sends is not kept and its digest not shown."""

from __future__ import annotations

from django.contrib import admin

from apps.core.admin import ReadOnlyAdmin
from apps.mcp.models import Session


@admin.register(Session)
class SessionAdmin(ReadOnlyAdmin):
    list_display = ("id", "credential", "entry", "version", "shows_forms", "created_at", "expires_at")
    list_select_related = ("credential",)
    fields = ("id", "credential", "entry", "version", "shows_forms", "created_at", "expires_at")
    search_fields = ("=id",)
    ordering = ("-id",)
