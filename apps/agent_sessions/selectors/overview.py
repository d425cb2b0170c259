"""Background agents, what Projects used of models, and their provider keys, for an operator; no secret (B3, B5)."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Collection
from dataclasses import dataclass

from django.db.models import Sum

from apps.agent_sessions.models import AgentSession, ModelUsage, ProviderKey
from apps.core import cursors


@dataclass(frozen=True, slots=True)
class SessionEntry:
    """One background agent, without its program, input and output."""

    agent_session_id: uuid.UUID
    project: str
    model: str
    agent: str
    state: str
    error: dict[str, object] | None
    principal: str
    source: str
    requests: int
    input_tokens: int
    output_tokens: int
    tool_calls: int
    created_at: dt.datetime
    started_at: dt.datetime | None
    finished_at: dt.datetime | None


@dataclass(frozen=True, slots=True)
class SessionPage:
    """One page, the newest first."""

    entries: list[SessionEntry]
    next_cursor: str | None


@dataclass(frozen=True, slots=True)
class UsageEntry:
    """What a Project used of a model in the days asked for."""

    project: str
    model: str
    sessions: int
    requests: int
    input_tokens: int
    output_tokens: int
    tool_calls: int


@dataclass(frozen=True, slots=True)
class KeyEntry:
    """What may be known of a Project's key for a provider."""

    project: str
    provider: str
    last_four: str
    set_by: str
    set_at: dt.datetime
    tested_at: dt.datetime | None
    test_result: str


_SESSION = (
    "agent_session_id", "project__name", "model", "agent", "state", "error", "principal", "source", "requests",
    "input_tokens", "output_tokens", "tool_calls", "created_at", "started_at", "finished_at",
)  # fmt: skip
_COUNTED = ("sessions", "requests", "input_tokens", "output_tokens", "tool_calls")


def session_page(*, project_id: uuid.UUID, limit: int, cursor: str | None = None) -> SessionPage:
    """A keyset page of one Project's background agents."""
    filters = {"project": str(project_id)}
    after = cursors.decode("agent_sessions", filters, cursor, uuid.UUID)
    rows = AgentSession.objects.filter(project_id=project_id).order_by("-id")
    if after is not None:
        rows = rows.filter(id__lt=after)
    page = list(rows.values_list("id", *_SESSION)[: limit + 1])
    shown = page[:limit]
    return SessionPage(
        entries=[SessionEntry(*row[1:]) for row in shown],
        next_cursor=cursors.encode("agent_sessions", filters, str(shown[-1][0])) if len(page) > limit else None,
    )


def usage_since(*, project_ids: Collection[uuid.UUID], since: dt.date, limit: int) -> list[UsageEntry]:
    """By Project and model, the most tokens first; a row a day, so the sum costs days times models."""
    rows = (
        ModelUsage.objects.filter(day__gte=since, project_id__in=project_ids).order_by().values("project_id", "model")
    )
    summed = rows.annotate(**{f"all_{name}": Sum(name) for name in _COUNTED})
    found = [
        UsageEntry(*row) for row in summed.values_list("project__name", "model", *(f"all_{name}" for name in _COUNTED))
    ]
    return sorted(found, key=lambda each: (-each.input_tokens - each.output_tokens, each.project, each.model))[:limit]


def list_keys(*, project_ids: Collection[uuid.UUID], limit: int) -> list[KeyEntry]:
    """The Projects' provider keys: their last four characters, and who set them."""
    rows = ProviderKey.objects.filter(project_id__in=project_ids).order_by("project__name", "provider")
    fields = ("project__name", "provider", "last_four", "set_by", "set_at", "tested_at", "test_result")
    return [KeyEntry(*row) for row in rows.values_list(*fields)[:limit]]
