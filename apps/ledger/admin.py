"""Instances, Operations (the audit trail) and events, to look at."""

from __future__ import annotations

from django.contrib import admin

from apps.core.admin import ReadOnlyAdmin
from apps.ledger.models import Event, Operation, ServiceInstance


@admin.register(ServiceInstance)
class ServiceInstanceAdmin(ReadOnlyAdmin):
    list_display = ("id", "current", "version", "opened_at", "ended_at")
    fields = list_display
    search_fields = ("=id",)
    ordering = ("-id",)


@admin.register(Operation)
class OperationAdmin(ReadOnlyAdmin):
    list_display = ("operation_id", "kind", "status", "effect", "run_id", "principal", "source", "created_at")
    list_filter = ("kind", "status", "source", "project")
    list_select_related = ("project",)
    fields = (
        "id",
        "operation_id",
        "instance",
        "project",
        "kind",
        "status",
        "effect",
        "run_id",
        "revision_before",
        "revision_after",
        "error",
        "principal",
        "source",
        "entry",
        "parameters_digest",
        "created_at",
        "decided_at",
    )
    search_fields = ("=id", "=operation_id", "=run_id")
    ordering = ("-id",)


@admin.register(Event)
class EventAdmin(ReadOnlyAdmin):
    list_display = ("run_id", "seq", "type", "at")
    fields = ("run_id", "seq", "type", "at", "data")
    search_fields = ("=run_id",)
    ordering = ("-id",)
