"""Refusals of the background agent Tools: the code of any refusal, and more exactly why (B4)."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from apps.core.errors import ErrorCode, LoomError


class Reason(enum.StrEnum):
    """Why a call was refused; a closed list."""

    MALFORMED_REQUEST = "malformed_request"
    UNKNOWN_SESSION = "unknown_session"
    PROVIDER_KEY_MISSING = "provider_key_missing"
    MODEL_FAILED = "model_failed"
    SEARCH_NOT_CONFIGURED = "search_not_configured"
    TOO_MANY_ACTIVE = "too_many_active"
    TOO_MANY_STARTED = "too_many_started"
    TOO_LARGE = "too_large"
    NOT_AUTHENTICATED = "not_authenticated"
    NOT_ALLOWED = "not_allowed"
    NOT_FOUND = "not_found"
    NOT_NOW = "not_now"
    TEMPORARILY_UNAVAILABLE = "temporarily_unavailable"
    INCIDENT = "incident"


#: What a plain error is in these words.
REASON_OF_CODE = {
    ErrorCode.INVALID_REQUEST: Reason.MALFORMED_REQUEST,
    ErrorCode.UNAUTHENTICATED: Reason.NOT_AUTHENTICATED,
    ErrorCode.FORBIDDEN: Reason.NOT_ALLOWED,
    ErrorCode.NOT_FOUND: Reason.NOT_FOUND,
    ErrorCode.CAPACITY: Reason.TOO_MANY_ACTIVE,
    ErrorCode.RATE_LIMITED: Reason.TOO_MANY_STARTED,
    ErrorCode.PAYLOAD_TOO_LARGE: Reason.TOO_LARGE,
    ErrorCode.UNAVAILABLE: Reason.TEMPORARILY_UNAVAILABLE,
    ErrorCode.INTERNAL: Reason.INCIDENT,
}


class Action(enum.StrEnum):
    """What a recovery asks for."""

    CONFIGURE_PROVIDER_KEY = "configure_provider_key"


@dataclass(frozen=True, slots=True)
class Recovery:
    """What to do about it; ``setup_url`` is a page of the service that holds no secret."""

    action: Action
    setup_url: str


class Refusal(LoomError):
    """A refusal with a reason of its own and, where there is one, a way out."""

    def __init__(
        self,
        code: ErrorCode,
        reason: Reason,
        message: str,
        *,
        recovery: Recovery | None = None,
        retry_after: int | None = None,
    ) -> None:
        super().__init__(code, message, retry_after=retry_after)
        self.reason = reason
        self.recovery = recovery
