"""Agent calls and Tool receipts, to look at."""

from __future__ import annotations

from django.contrib import admin

from apps.agents.models import AgentCall, ToolReceipt
from apps.core.admin import ReadOnlyAdmin


@admin.register(AgentCall)
class AgentCallAdmin(ReadOnlyAdmin):
    list_display = ("id", "run_id", "stage", "step", "visit", "agent_id", "claimed_at", "closed_as", "created_at")
    list_filter = ("closed_as",)
    fields = tuple(field.name for field in AgentCall._meta.concrete_fields if field.name != "claim_digest")
    search_fields = ("=id", "=run__id")
    ordering = ("-id",)


@admin.register(ToolReceipt)
class ToolReceiptAdmin(ReadOnlyAdmin):
    list_display = ("id", "call_id", "tool_id", "tool_call_id", "status", "created_at", "settled_at")
    list_filter = ("status",)
    fields = tuple(field.name for field in ToolReceipt._meta.concrete_fields)
    search_fields = ("=id", "=call__id", "=call__run__id")
    ordering = ("-id",)
