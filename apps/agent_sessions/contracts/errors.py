"""The error envelope of the background agent Tools, on every face (B4)."""

from __future__ import annotations

from typing import Literal

from apps.agent_sessions.contracts import SnakeContract
from apps.agent_sessions.domain.refusals import REASON_OF_CODE, Reason, Refusal
from apps.core.endpoints import ErrorForm
from apps.core.errors import LoomError
from apps.core.ids import new_id


class EnvelopeIssue(SnakeContract):
    """One thing wrong with an input; `path` is an RFC 6901 pointer into it."""

    code: str
    path: str
    suggestion: str


class EnvelopeValidation(SnakeContract):
    """Everything wrong with an input, at most 50 issues; correct all of them before the next try."""

    contract: str
    issues: list[EnvelopeIssue]
    truncated: bool


class EnvelopeRecovery(SnakeContract):
    """What helps; `setup_url` is a page for the operator of the service."""

    action: Literal["configure_provider_key"]
    setup_url: str


class EnvelopeError(SnakeContract):
    """Why the call was refused; what does not apply is null."""

    code: str
    reason: str
    message: str
    recovery: EnvelopeRecovery | None
    agent_session_id: str | None
    validation: EnvelopeValidation | None


class ErrorEnvelope(SnakeContract):
    """A refusal.  An unchanged retry gets the same but for `request_id`."""

    error: EnvelopeError
    request_id: str


def envelope_of(error: LoomError) -> ErrorEnvelope:
    """``error`` as these Tools answer it."""
    wire = error.to_wire()
    validation = wire.get("validation")
    message = wire["message"]
    if validation is not None:
        # Word for word as the document of these Tools has it; the issues say what is wrong.
        message = "invalid request: request body violates the public contract"
        validation = {**validation, "issues": [_in_words_of_fields(issue) for issue in validation["issues"]]}
    recovery = None
    if isinstance(error, Refusal) and error.recovery is not None:
        recovery = {"action": error.recovery.action.value, "setup_url": error.recovery.setup_url}
    return ErrorEnvelope.model_validate(
        {
            "error": {
                "code": error.code.value.lower(),
                "reason": _reason(error).value,
                "message": message,
                "recovery": recovery,
                "agent_session_id": None,
                "validation": validation,
            },
            "request_id": str(new_id()),
        }
    )


def _in_words_of_fields(issue: dict[str, str]) -> dict[str, str]:
    """These Tools call members fields."""
    return {**issue, "suggestion": issue["suggestion"].replace("` member.", "` field.")}


def _reason(error: LoomError) -> Reason:
    return error.reason if isinstance(error, Refusal) else REASON_OF_CODE.get(error.code, Reason.NOT_NOW)


#: What every Endpoint of this app declares as its ``error_form``.
ENVELOPE = ErrorForm(shape=ErrorEnvelope, render=envelope_of)
