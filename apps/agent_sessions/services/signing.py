"""The signature over a session: what a worker runs is what was admitted, for whom it was (B3)."""

from __future__ import annotations

from django.conf import settings
from django.utils.crypto import constant_time_compare, salted_hmac

from apps.agent_sessions.models import AgentSession
from apps.core import json_text

_SALT = "loomsvc.agent_session"


def signature_of(row: AgentSession, *, secret_key: str | bytes | None = None) -> str:
    """HMAC-SHA-256 over the ids, the Project, the program, its input and the digest of the secret."""
    signed = {
        "id": str(row.pk),
        "agent_session_id": str(row.agent_session_id),
        "project": str(row.project_id),
        "model": row.model,
        "agent": row.agent,
        "release": row.release_digest,
        "program": row.program_digest,
        "input": json_text.digest(row.input),
        "secret": row.secret_digest,
    }
    return salted_hmac(_SALT, json_text.canonical(signed), secret=secret_key, algorithm="sha256").hexdigest()


def is_genuine(row: AgentSession) -> bool:
    """Whether the row still is what was signed, its program included."""
    if json_text.digest(row.program) != row.program_digest:
        return False
    keys = [settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS]
    return any(constant_time_compare(signature_of(row, secret_key=key), row.signature) for key in keys)
