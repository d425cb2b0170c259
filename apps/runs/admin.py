"""Runs, attempts, States and Actions, to look at."""

from __future__ import annotations

from django.contrib import admin

from apps.core.admin import ReadOnlyAdmin
from apps.runs.models import Action, Run, State, StepAttempt


@admin.register(Run)
class RunAdmin(ReadOnlyAdmin):
    list_display = ("id", "loom_name", "status", "stage", "step", "visit", "project", "created_at", "finished_at")
    list_filter = ("status", "project")
    list_select_related = ("project",)
    fields = tuple(field.name for field in Run._meta.concrete_fields)
    search_fields = ("=id", "=trace_id", "=origin_operation_id", "=loom_name")
    ordering = ("-id",)


@admin.register(StepAttempt)
class StepAttemptAdmin(ReadOnlyAdmin):
    list_display = ("run_id", "step_seq", "stage", "step", "visit", "kind", "attempt", "status", "ended_at")
    list_filter = ("status",)
    fields = tuple(field.name for field in StepAttempt._meta.concrete_fields)
    search_fields = ("=id", "=run__id")
    ordering = ("-id",)


@admin.register(State)
class StateAdmin(ReadOnlyAdmin):
    list_display = ("id", "run_id", "stage", "created_at")
    fields = ("id", "run", "stage", "created_at", "data")
    search_fields = ("=id", "=run__id")
    ordering = ("-id",)


@admin.register(Action)
class ActionAdmin(ReadOnlyAdmin):
    list_display = ("id", "run_id", "kind", "only_person", "created_at", "answered_at")
    list_filter = ("kind",)
    fields = tuple(field.name for field in Action._meta.concrete_fields)
    search_fields = ("=id", "=run__id")
    ordering = ("-id",)
