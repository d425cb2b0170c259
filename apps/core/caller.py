"""Who is calling, as a value that every handler gets (contract section 3)."""

from __future__ import annotations

import enum
import uuid
from dataclasses import dataclass


class Source(enum.StrEnum):
    """Where a call comes from; the Entry's path fixes it, nothing a client says does (N1)."""

    AGENT_IDE = "agent_ide"
    CLI = "cli"
    STUDIO = "studio"
    CONSOLE = "console"


class AgentExecutor(enum.StrEnum):
    """Who reasons in a Run's Agent Steps."""

    MCP_CLIENT = "mcp_client"
    SERVICE_MODEL = "service_model"


#: The source policy: fixed at admission, never changed by a later caller.
EXECUTOR_OF_SOURCE = {
    Source.AGENT_IDE: AgentExecutor.MCP_CLIENT,
    Source.CLI: AgentExecutor.SERVICE_MODEL,
    Source.STUDIO: AgentExecutor.SERVICE_MODEL,
    Source.CONSOLE: AgentExecutor.SERVICE_MODEL,
}


@dataclass(frozen=True, slots=True)
class Caller:
    """One authenticated call.

    ``principal`` names the credential or operator in the audit trail; ``entry`` is the door's path.
    """

    project_id: uuid.UUID
    project_name: str
    principal: str
    source: Source
    entry: str
    profile: str | None = None
    credential_id: uuid.UUID | None = None

    @property
    def agent_executor(self) -> AgentExecutor:
        return EXECUTOR_OF_SOURCE[self.source]
