"""The error envelope of the background agent Tools (B4)."""

from __future__ import annotations

import pytest

from apps.agent_sessions.contracts.errors import ENVELOPE
from apps.agent_sessions.domain.refusals import Action, Reason, Recovery, Refusal
from apps.core.errors import ErrorCode, Issue, LoomError, invalid_request


def body(error: LoomError) -> dict:
    return ENVELOPE.render(error).to_wire()


@pytest.mark.rule("B4")
def test_an_invalid_request_lists_its_issues_and_has_every_member() -> None:
    said = body(invalid_request("SearchPostRequest", [Issue("required", "/query", "Add the required `query` member.")]))
    message = said["error"].pop("message")
    assert message and said.pop("request_id")
    assert said == {
        "error": {
            "code": "invalid_request",
            "reason": "malformed_request",
            "recovery": None,
            "agent_session_id": None,
            "validation": {
                "contract": "SearchPostRequest",
                "issues": [
                    {"code": "required", "path": "/query", "suggestion": "Add the required `query` field."},
                ],
                "truncated": False,
            },
        }
    }


@pytest.mark.rule("B4")
def test_unchanged_retries_differ_in_their_request_id_only() -> None:
    error = LoomError(ErrorCode.NOT_FOUND, "There is none.")
    first, second = body(error), body(error)
    assert first.pop("request_id") != second.pop("request_id")
    assert first == second


@pytest.mark.rule("B4", "B5")
def test_a_recovery_says_what_to_do_and_where() -> None:
    url = "http://127.0.0.1/admin/x"
    error = Refusal(
        ErrorCode.UNAVAILABLE,
        Reason.PROVIDER_KEY_MISSING,
        "A key is missing.",
        recovery=Recovery(Action.CONFIGURE_PROVIDER_KEY, url),
    )
    said = body(error)["error"]
    assert said["recovery"] == {"action": "configure_provider_key", "setup_url": url}
    assert (said["code"], said["reason"], said["validation"]) == ("unavailable", "provider_key_missing", None)


@pytest.mark.rule("B4", "E2")
@pytest.mark.parametrize("code", list(ErrorCode))
def test_every_code_has_a_reason_and_is_written_small(code: ErrorCode) -> None:
    said = body(LoomError(code, "Something."))["error"]
    assert said["code"] == code.value.lower() and said["reason"] in set(Reason)


@pytest.mark.rule("E6")
def test_a_secret_in_a_message_is_taken_out() -> None:
    secret = "loom_session_0123456789ab_" + "x" * 43
    assert "x" * 43 not in str(body(LoomError(ErrorCode.NOT_FOUND, f"No {secret}.")))
