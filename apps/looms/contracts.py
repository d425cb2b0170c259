"""Wire shapes of the Loom Endpoints (N8)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from apps.core.contracts import Contract


class DiagnosticView(Contract):
    """One problem of a Loom folder; ``file`` is relative to it."""

    severity: Literal["error", "warning"]
    file: str
    line: int | None = None
    message: str
    suggestion: str | None = None


class StepSummary(Contract):
    """One Step; ``outcomes`` are those that the graph routes."""

    name: str
    kind: Literal["code", "agent"]
    outcomes: list[str]


class StageSummary(Contract):
    """One Stage with its Steps, in the order of the file."""

    name: str
    steps: list[StepSummary]


class LoomSummary(Contract):
    """The newest loaded Release of a Loom; ``inputSchema`` null takes any JSON but blank text."""

    loom_name: str
    title: str
    description: str
    status: Literal["ready", "invalid"]
    release_digest: str | None
    exclusive: bool
    input_schema: dict[str, Any] | None
    stages: list[StageSummary]
    diagnostics: list[DiagnosticView] | None = None


class LoomList(Contract):
    """Every Loom of the service, by name."""

    looms: list[LoomSummary]


class LoomGraphRequest(Contract):
    """Which Loom."""

    loom_name: Annotated[str, Field(min_length=1, max_length=64)]


class LoomGraphView(Contract):
    """A Loom's graph as Mermaid text and as JSON."""

    loom_name: str
    release_digest: str
    mermaid: str
    graph: dict[str, Any]
