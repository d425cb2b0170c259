"""Agent sessions, usage and provider keys, to look at.  No secret is shown, nor what could stand for one."""

from __future__ import annotations

from functools import partial
from typing import Any

from django.contrib import admin
from django.urls import path

from apps.agent_sessions.models import AgentSession, ModelChoice, ModelUsage, ProviderKey
from apps.agent_sessions.setup_page import provider_key_page
from apps.core.admin import ReadOnlyAdmin
from apps.core.threads import takes_long


@admin.register(AgentSession)
class AgentSessionAdmin(ReadOnlyAdmin):
    list_display = ("id", "project", "model", "agent", "state", "requests", "created_at", "finished_at")
    list_filter = ("state", "project")
    list_select_related = ("project",)
    fields = tuple(
        field.name
        for field in AgentSession._meta.concrete_fields
        if field.name not in ("secret_digest", "signature", "lease_owner")
    )
    search_fields = ("=id", "=agent_session_id")
    ordering = ("-id",)


@admin.register(ModelUsage)
class ModelUsageAdmin(ReadOnlyAdmin):
    list_display = (
        "day",
        "project",
        "model",
        "sessions",
        "requests",
        "input_tokens",
        "output_tokens",
        "tool_calls",
    )
    list_filter = ("project", "model")
    list_select_related = ("project",)
    fields = list_display
    ordering = ("-day", "project", "model")


@admin.register(ModelChoice)
class ModelChoiceAdmin(ReadOnlyAdmin):
    list_display = ("kind", "name", "project", "model", "chosen_by", "chosen_at")
    list_filter = ("project", "kind")
    list_select_related = ("project",)
    fields = ("id", *list_display)
    ordering = ("project", "kind", "name")


@admin.register(ProviderKey)
class ProviderKeyAdmin(ReadOnlyAdmin):
    list_display = ("provider", "project", "shown", "set_by", "set_at", "tested_at", "test_result")
    list_filter = ("project", "provider")
    list_select_related = ("project",)
    fields = ("id", "project", "provider", "shown", "encrypted_with", "set_by", "set_at", "tested_at", "test_result")
    readonly_fields = ("shown",)
    ordering = ("project", "provider")

    @admin.display(description="key")
    def shown(self, key: ProviderKey) -> str:
        return f"…{key.last_four}"

    def get_urls(self) -> list[Any]:
        page = self.admin_site.admin_view(partial(provider_key_page, site=self.admin_site))
        takes_long(page, "POST")  # a test of the key waits for the provider
        return [path("setup/<str:project>/<str:provider>", page, name="provider_key_setup"), *super().get_urls()]
