"""The Entries: doors whose path fixes the source policy (contract section 3)."""

from __future__ import annotations

from dataclasses import dataclass

from apps.core.caller import Source


@dataclass(frozen=True, slots=True)
class Entry:
    """One door: its path, the source it stands for, and the presentation profile if it has one."""

    name: str
    path: str
    source: Source
    profile: str | None = None


MCP_ENTRIES = (
    Entry("agent_ide", "/mcp", Source.AGENT_IDE),
    Entry("codex", "/mcp/codex", Source.AGENT_IDE, profile="codex"),
    Entry("cli", "/internal/mcp", Source.CLI),
    Entry("studio", "/internal/mcp/studio", Source.STUDIO),
)
REST_ENTRY = Entry("rest", "/api/v1", Source.STUDIO)
CONSOLE_ENTRY = Entry("console", "/admin", Source.CONSOLE)
#: Sources that a credential can be made for; the console has people instead.
CREDENTIAL_SOURCES = (Source.AGENT_IDE, Source.CLI, Source.STUDIO)


def paths_opened(source: Source) -> str:
    """The Entries that a credential of this source opens, as one text."""
    return ", ".join(entry.path for entry in (*MCP_ENTRIES, REST_ENTRY) if entry.source is source)
