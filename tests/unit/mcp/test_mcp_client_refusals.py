"""What a command says when a Tool has refused, in whichever of the two forms it did."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from apps.agent_sessions.contracts.errors import ENVELOPE
from apps.agent_sessions.domain.refusals import Action, Reason, Recovery, Refusal
from apps.core.errors import ErrorCode, Issue, LoomError, invalid_request
from apps.mcp.client import _told
from apps.mcp.terminal import refusal

INVALID = invalid_request("Shape", [Issue("range", "/limit", "Send less."), Issue("required", "/query", "Add it.")])


def shown(error: LoomError) -> str:
    out = io.StringIO()
    Console(file=out, width=200).print(refusal(error))
    return out.getvalue()


@pytest.mark.rule("E3", "B4")
@pytest.mark.parametrize("form", ["problem", "envelope"])
def test_every_place_is_named_once_in_either_form(form: str) -> None:
    wire = ENVELOPE.render(INVALID).to_wire() if form == "envelope" else {"error": INVALID.to_wire()}
    said = shown(_told(wire))
    assert said.startswith("✗ INVALID_REQUEST  The input does not fit Shape: /limit: Send less. (and 1 more)")
    assert [said.count(place) for place in ("/limit", "/query: Add it.")] == [1, 1]


@pytest.mark.rule("B4")
def test_the_page_that_helps_is_told_with_the_message() -> None:
    recovery = Recovery(Action.CONFIGURE_PROVIDER_KEY, "http://here/keys")
    missing = Refusal(ErrorCode.UNAVAILABLE, Reason.PROVIDER_KEY_MISSING, "There is no key.", recovery=recovery)
    assert shown(_told(ENVELOPE.render(missing).to_wire())) == "✗ UNAVAILABLE  There is no key. http://here/keys\n"
