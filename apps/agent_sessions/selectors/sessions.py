"""Reads of agent sessions by whoever proves to have started them (B3, K6)."""

from __future__ import annotations

import uuid

from apps.agent_sessions.contracts.sessions import AgentRunError, AgentStatus, UsageReport
from apps.agent_sessions.domain.proofs import is_proven, read_id
from apps.agent_sessions.domain.refusals import Reason, Refusal
from apps.agent_sessions.models import AgentSession
from apps.core.caller import Caller
from apps.core.errors import ErrorCode


def find_proven(*, caller: Caller, id: str, session_secret: str) -> uuid.UUID:
    """The session's key, if the secret is its own and the Project the caller's.

    Whatever is wrong costs the same one statement and one comparison, and is answered the same ``NOT_FOUND``.
    """
    key = read_id(id)
    # The digest alone: how much else such a row holds must not show in time.
    rows = AgentSession.objects.filter(pk=key, project_id=caller.project_id)
    stored = rows.values_list("secret_digest", flat=True).first()
    if not is_proven(session_secret, stored):
        raise Refusal(
            ErrorCode.NOT_FOUND,
            Reason.UNKNOWN_SESSION,
            "No background agent of this Project has that id and session_secret. Both come from run_agent; a secret "
            "that was lost cannot be had again, so start another agent.",
        )
    return key


def get_status(key: uuid.UUID) -> AgentStatus:
    """The session as it stands."""
    # A poll shows neither, and they may be long.
    return status_of(AgentSession.objects.defer("program", "input").get(pk=key))


def status_of(row: AgentSession) -> AgentStatus:
    """All six fields (B3)."""
    return AgentStatus(
        agent_session_id=str(row.agent_session_id),
        state=row.state,  # type: ignore[arg-type]  # State, as its choices have it
        program_digest=row.program_digest,
        output=row.output,
        error=None if row.error is None else AgentRunError.model_validate(row.error),
        usage=UsageReport(
            requests=row.requests,
            input_tokens=row.input_tokens,
            output_tokens=row.output_tokens,
            total_tokens=row.input_tokens + row.output_tokens,
            tool_calls=row.tool_calls,
        ),
    )
