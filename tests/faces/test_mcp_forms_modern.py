"""Asking a client's human at revision 2026-07-28: an input-required result, and the call again (N5, H4)."""

# ruff: noqa: F811 - the fixtures come from mcp_live
from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from mcp_asking import ASK
from mcp_live import KINDS, MODERN, Live, _other_server, _server, effects, live, modern_meta, other  # noqa: F401
from mcp_session import FORMS
from mcp_types.methods import serialize_server_result

from apps.access.services.credentials import create_credential
from apps.access.services.projects import ensure_default_project
from apps.core import clock, conf
from apps.core.caller import Source


def modern_ask(live: Live, *, meta: Any = None, arguments: Any = ASK, **more: Any) -> Any:
    options = {name: more.pop(name) for name in ("path", "source") if name in more}
    envelope = meta or {**modern_meta(), "io.modelcontextprotocol/clientCapabilities": FORMS}
    return live.modern("tools/call", {"name": "ask", "arguments": arguments, **more}, meta=envelope, **options)


def asked(live: Live, **options: Any) -> Any:
    answer = modern_ask(live, **options)
    assert answer.status == 200, answer.body
    result = answer.json["result"]
    assert result["resultType"] == "input_required"
    assert serialize_server_result("tools/call", MODERN, result) == result
    return result


ACCEPT = {"name": {"action": "accept", "content": {"name": "Ada"}}}


@pytest.mark.rule("N5", "H4")
def test_a_modern_call_gets_its_question_and_is_answered_at_any_process(live: Live, other: Live) -> None:
    question = asked(live)
    assert question["inputRequests"]["name"]["method"] == "elicitation/create"
    assert question["inputRequests"]["name"]["params"]["requestedSchema"]["properties"]["kind"]["oneOf"] == KINDS
    done = modern_ask(other, inputResponses=ACCEPT, requestState=question["requestState"])
    assert done.json["result"]["structuredContent"] == {"name": "Ada"}
    assert done.json["result"]["resultType"] == "complete"


@pytest.mark.rule("N5", "H4", "H5")
@pytest.mark.parametrize(
    ("responses", "presented"),
    [
        ({"name": {"action": "decline"}}, "declined"),
        ({"name": {"action": "cancel"}}, "cancelled"),
    ],
)
def test_a_modern_form_that_is_put_away_admits_nothing(live: Live, responses: Any, presented: str) -> None:
    state = asked(live)["requestState"]
    done = modern_ask(live, inputResponses=responses, requestState=state)
    assert done.json["result"]["structuredContent"] == {"presented": presented}
    assert effects.done == []


@pytest.mark.rule("N5", "H4")
@pytest.mark.parametrize(
    "responses",
    [None, {}, {"other": {"action": "accept", "content": {"name": "Ada"}}}, {"name": {"roots": []}}],
    ids=repr,
)
def test_missing_responses_are_asked_for_again_and_others_ignored(live: Live, responses: Any) -> None:
    state = asked(live)["requestState"]
    given = {} if responses is None else {"inputResponses": responses}
    again = asked(live, requestState=state, **given)
    assert again["inputRequests"]["name"]["params"]["message"] == "Who are you?"
    more = {"extra": {"action": "decline"}, **ACCEPT}
    done = modern_ask(live, inputResponses=more, requestState=again["requestState"])
    assert done.json["result"]["structuredContent"] == {"name": "Ada"}


@pytest.mark.rule("N5", "H4")
def test_a_modern_answer_that_does_not_do_is_asked_for_again(live: Live) -> None:
    state = asked(live)["requestState"]
    poor = {"name": {"action": "accept", "content": {"name": "A"}}}
    again = asked(live, inputResponses=poor, requestState=state)
    assert "Two letters" in again["inputRequests"]["name"]["params"]["message"]


@pytest.mark.rule("N5", "H6")
def test_responses_that_were_not_asked_for_mean_nothing(live: Live) -> None:
    asked(live, inputResponses=ACCEPT)
    assert effects.done == []


@pytest.mark.rule("N5")
def test_a_state_that_is_forged_foreign_or_too_old_is_refused(live: Live) -> None:
    state = asked(live)["requestState"]
    body, _, signature = state.rpartition(":")

    def refused(**options: Any) -> bool:
        answer = modern_ask(live, inputResponses=ACCEPT, **options)
        return bool(answer.status == 400 and answer.error_code == -32602)

    forged = ["", ":", state + "x", state[1:], f"{body[:-2]}AA:{signature}", f"{body}:", "x" * 100_000, "ü", "\ud83d"]
    assert [text for text in forged if not refused(requestState=text)] == []
    assert refused(requestState=state, arguments={"text": "Who else?"})
    assert refused(requestState=state, arguments={"text": "Who?\x00"})
    assert refused(requestState=state, path="/mcp/codex")
    assert refused(requestState=state, path="/internal/mcp", source="cli")
    with clock.moved(dt.timedelta(seconds=conf.settings().form_seconds)):
        assert refused(requestState=state)
    assert effects.done == []
    echo = live.modern("tools/call", {"name": "echo", "arguments": ASK, "requestState": state})
    assert (echo.status, echo.error_code) == (400, -32602)
    assert not refused(requestState=state)


@pytest.mark.rule("N5")
def test_another_credential_of_the_same_project_cannot_use_a_state(live: Live) -> None:
    state = asked(live)["requestState"]
    project = ensure_default_project(now=clock.now())
    _, token = create_credential(project=project, source=Source.AGENT_IDE, label="neighbour", now=clock.now())
    stranger = Live(live.port, {"agent_ide": token})
    assert modern_ask(stranger, inputResponses=ACCEPT, requestState=state).error_code == -32602


@pytest.mark.rule("N5")
@pytest.mark.parametrize("capabilities", [{}, {"elicitation": {"url": {}}}, {"sampling": {}}])
def test_a_modern_client_without_forms_gets_the_action_as_data(live: Live, capabilities: Any) -> None:
    meta = {**modern_meta(), "io.modelcontextprotocol/clientCapabilities": capabilities}
    answer = modern_ask(live, meta=meta)
    assert answer.json["result"]["structuredContent"] == {"presented": "unsupported"}
