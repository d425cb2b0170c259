"""What runs has to say to `loomsvc doctor`: where Agent Steps can run."""

from __future__ import annotations

from collections.abc import Iterator

from apps.access.selectors.projects import project_names
from apps.core.caller import AgentExecutor
from apps.core.findings import Finding, ok, register_check, warning
from apps.runs.services.executors import not_ready_because

#: Entries by who reasons there.
_ENTRIES = {
    AgentExecutor.MCP_CLIENT: "/mcp and /mcp/codex",
    AgentExecutor.SERVICE_MODEL: "/internal/mcp, /internal/mcp/studio, /api/v1 and the console",
}
_MOST_PROJECTS = 50


def check_entries() -> Iterator[Finding]:
    """Each kind of Entry in each Project: ready for Agent Steps, or why not."""
    projects = project_names(most=_MOST_PROJECTS)
    for kind, entries in _ENTRIES.items():
        reasons = {project.name: not_ready_because(kind, project.id) for project in projects}
        ready = [name for name, reason in reasons.items() if reason is None]
        if ready:
            yield ok(f"Agent Steps run at {entries} in {', '.join(ready)}")
        for name, reason in reasons.items():
            if reason is not None:
                yield warning(
                    f"Agent Steps do not run at {entries} in Project {name}: {reason}",
                    "Configure what it names, or start such Runs at /mcp.",
                )


register_check("entries", check_entries, reads_ledger=True)
