"""Business errors: one exception, a closed list of codes (contract E1, E2).

Faces turn a :class:`LoomError` into their own form: ``mcp`` into a Tool result, ``rest`` into
problem+json.  Nothing else in the service knows an HTTP status.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from apps.core.redaction import mask_credentials


class ErrorCode(enum.StrEnum):
    """Every code a caller can meet."""

    INVALID_REQUEST = "INVALID_REQUEST"
    UNAUTHENTICATED = "UNAUTHENTICATED"
    FORBIDDEN = "FORBIDDEN"
    NOT_FOUND = "NOT_FOUND"
    CONFLICT = "CONFLICT"
    BUSY = "BUSY"
    INSTANCE_CHANGED = "INSTANCE_CHANGED"
    CAPACITY = "CAPACITY"
    TOOLS_CLOSED = "TOOLS_CLOSED"
    RELEASE_UNAVAILABLE = "RELEASE_UNAVAILABLE"
    MIRROR_DIVERGED = "MIRROR_DIVERGED"
    MIRROR_INVALID = "MIRROR_INVALID"
    TOOL_FAILED = "TOOL_FAILED"
    PAYLOAD_TOO_LARGE = "PAYLOAD_TOO_LARGE"
    RATE_LIMITED = "RATE_LIMITED"
    UNAVAILABLE = "UNAVAILABLE"
    INTERNAL = "INTERNAL"


#: The same request may succeed later (E1); where a receipt is stored, under a new operationId.
RETRYABLE = frozenset({ErrorCode.BUSY, ErrorCode.RATE_LIMITED, ErrorCode.UNAVAILABLE, ErrorCode.RELEASE_UNAVAILABLE})

#: At most this many issues are listed; more set ``truncated`` (E3).
MAX_ISSUES = 50


@dataclass(frozen=True, slots=True)
class Issue:
    """One thing wrong with an input: ``path`` is an RFC 6901 pointer into the arguments."""

    code: str
    path: str
    suggestion: str

    def to_wire(self) -> dict[str, str]:
        path, suggestion = mask_credentials(self.path), mask_credentials(self.suggestion)
        return {"code": self.code, "path": path, "suggestion": suggestion}


class LoomError(Exception):
    """A refusal that the caller is meant to read.

    ``attachments`` are members that stand beside ``error`` in the result, such as the stored
    receipt of a rejected Operation.  ``message`` must never hold a secret or a server path (E6); a
    credential that a client sent in the place of an id or a name is not repeated to it either.
    """

    def __init__(
        self,
        code: ErrorCode,
        message: str,
        *,
        details: Mapping[str, Any] | None = None,
        contract: str | None = None,
        issues: Sequence[Issue] = (),
        attachments: Mapping[str, Any] | None = None,
        retry_after: int | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.details = dict(details) if details else None
        self.contract = contract
        self.issues = tuple(issues)
        self.attachments = dict(attachments) if attachments else {}
        self.retry_after = retry_after

    @property
    def retryable(self) -> bool:
        return self.code in RETRYABLE

    def to_wire(self) -> dict[str, Any]:
        """The ``error`` member: ``{code, message, retryable, details?, validation?}``."""
        message = mask_credentials(self.message)
        body: dict[str, Any] = {"code": self.code.value, "message": message, "retryable": self.retryable}
        if self.details is not None:
            body["details"] = self.details
        if self.issues:
            body["validation"] = {
                "contract": self.contract or "Request",
                "issues": [issue.to_wire() for issue in self.issues[:MAX_ISSUES]],
                "truncated": len(self.issues) > MAX_ISSUES,
            }
        return body

    @classmethod
    def from_wire(cls, body: Mapping[str, Any]) -> LoomError:
        """The exception that :meth:`to_wire` was taken from (a stored receipt's error)."""
        validation = body.get("validation") or {}
        return cls(
            ErrorCode(body["code"]),
            body["message"],
            details=body.get("details"),
            contract=validation.get("contract"),
            issues=[Issue(**issue) for issue in validation.get("issues", [])],
        )


def invalid_request(contract: str, issues: Sequence[Issue]) -> LoomError:
    """``INVALID_REQUEST`` whose message names the first place and how many others there are."""
    first = issues[0]
    where = first.path or "the whole input"
    more = f" (and {len(issues) - 1} more)" if len(issues) > 1 else ""
    return LoomError(
        ErrorCode.INVALID_REQUEST,
        f"The input does not fit {contract}: {where}: {first.suggestion}{more}",
        contract=contract,
        issues=issues,
    )


def not_found(kind: str, identifier: str) -> LoomError:
    """The one wording for an unknown id and for another Project's (E5)."""
    return LoomError(ErrorCode.NOT_FOUND, f"No {kind} {identifier} in this Project.")


def cut_off() -> LoomError:
    """What a request is told that was under way when the service was stopped: its thread goes on, unheard."""
    return LoomError(
        ErrorCode.INTERNAL,
        "The service was stopped before it could answer, so whether this was applied is not known. After a write, ask "
        "get_operation with its operationId and serviceInstanceId (after a restart find_run) before you send it again.",
    )
