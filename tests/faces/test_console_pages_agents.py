"""Background agents in the console: what they used, never what they were told, and keys without the key."""

from __future__ import annotations

import datetime as dt
import re
from typing import Any

import pytest
from console_people import operator, root, signed_in, text_of, with_role
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.access.services.projects import create_project
from apps.agent_sessions.models import AgentSession, ModelUsage, ProviderKey
from apps.agent_sessions.runtime.models import Provider
from apps.core import clock
from apps.core.errors import ErrorCode, LoomError
from apps.core.ids import new_id

AGENTS = "/admin/console/agents/"
HIDDEN = "what only its caller may read"


def session(project_id: Any, **more: Any) -> AgentSession:
    given = {
        "source": "agent_ide", "entry": "/mcp", "principal": "credential:test", "model": "offline:test",
        "agent": "intent/analyst", "program": {"instructions": HIDDEN}, "program_digest": "0" * 64, "input": HIDDEN,
        "output": HIDDEN, "signature": "s" * 64, "secret_digest": "d" * 64, "state": "succeeded", "requests": 3,
        "input_tokens": 1200, "output_tokens": 34, "created_at": clock.now(), "started_at": clock.now(),
    }  # fmt: skip
    return AgentSession.objects.create(project_id=project_id, **{**given, **more})


class Known:
    """What a file of models names."""

    def providers(self) -> list[Provider]:
        return [Provider("openai", "OpenAI", True), Provider("acme", "Acme", True), Provider("free", "Free", False)]


def words(response: Any) -> str:
    assert response.status_code == 200
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", text_of(response)))


@pytest.fixture
def here(service: Any) -> Any:
    """The Project's id; it has used a model on three days and has a key."""
    project_id = service.caller.project_id
    today = clock.now().astimezone(dt.UTC).date()
    for days in (0, 1, 40):
        ModelUsage.objects.create(
            project_id=project_id, model="openai:big", day=today - dt.timedelta(days=days), sessions=1, requests=2,
            input_tokens=100, output_tokens=10, tool_calls=5,
        )  # fmt: skip
    ProviderKey.objects.create(
        project_id=project_id, provider="openai", ciphertext="c" * 40, encrypted_with="1", last_four="wxyz",
        set_by="ada", set_at=clock.now(),
    )  # fmt: skip
    return project_id


@pytest.mark.rule("B3", "B5")
def test_agents_are_shown_with_what_they_used_and_without_what_they_said(here: Any) -> None:
    one = session(here)
    failed = session(here, state="failed", error={"code": "MODEL_REQUEST_FAILED", "message": HIDDEN})
    response = signed_in(root()).get(AGENTS)
    shown = words(response)
    assert str(one.agent_session_id)[-8:] in shown
    assert "succeeded offline:test credential:test agent_ide 3 1200 34" in shown
    assert "failed MODEL_REQUEST_FAILED" in shown
    assert str(failed.agent_session_id)[-8:] in shown
    assert "trials openai:big 2 4 200 20 10" in shown
    assert "…wxyz" in shown
    for secret in (HIDDEN, "d" * 64, "s" * 64, "c" * 40):
        assert secret not in text_of(response)  # type: ignore[arg-type]


@pytest.mark.rule("B5")
def test_what_a_project_has_no_key_for_leads_to_where_one_is_entered(
    here: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from apps.console.pages import agents

    monkeypatch.setattr(agents, "known_models", Known)
    response = signed_in(root()).get(AGENTS)
    assert "Project trials has no key for Acme ." in words(response)
    assert '/admin/agent_sessions/providerkey/setup/trials/acme"' in text_of(response)  # type: ignore[arg-type]

    def broken() -> Known:
        raise LoomError(ErrorCode.UNAVAILABLE, "The models of this service cannot be read: line 3")

    monkeypatch.setattr(agents, "known_models", broken)
    assert "cannot be read: line 3" in words(signed_in(root("other")).get(AGENTS))


@pytest.mark.rule("FR-I3")
def test_a_list_of_keys_that_is_cut_says_so_and_takes_none_for_missing(
    here: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from apps.console.pages import agents

    monkeypatch.setattr(agents, "MOST_KEYS", 1)
    monkeypatch.setattr(agents, "known_models", Known)
    before = create_project(name="before", now=clock.now()).pk
    key = ProviderKey.objects.get()
    key.pk, key.project_id = new_id(), before
    key.save(force_insert=True)
    shown = words(signed_in(root()).get(f"{AGENTS}?project=trials"))
    assert "these are the first 1." in shown
    assert "before openai …wxyz" in shown
    assert "trials openai …wxyz" not in shown
    assert "Project trials has no key for Acme ." in shown


@pytest.mark.rule("K14")
def test_another_project_shows_nothing_and_keys_are_for_superusers(here: Any) -> None:
    session(here)
    elsewhere = create_project(name="elsewhere", now=clock.now()).pk
    stranger = words(signed_in(with_role(operator("stranger"), elsewhere, "see_project")).get(AGENTS))
    assert "None in this Project." in stranger
    assert "openai" not in stranger
    viewer = words(signed_in(operator("viewer", "see_project")).get(f"{AGENTS}?project=trials"))
    assert "openai:big" in viewer
    assert "wxyz" not in viewer


@pytest.mark.rule("R3")
def test_older_agents_are_a_page_away_at_the_same_cost(here: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from apps.console.pages import agents

    monkeypatch.setattr(agents, "ROWS", 2)
    client = signed_in(root())
    met: list[str] = []
    made = [str(session(here).agent_session_id)[-8:] for _ in range(5)]
    address, costs = f"{AGENTS}?project=trials", set()
    while address:
        with CaptureQueriesContext(connection) as seen:
            shown = text_of(client.get(address))  # type: ignore[arg-type]
        costs.add(len(seen))
        met += re.findall(r'intent/analyst <span class="mono">…(\w{8})', shown)
        found = re.search(r'href="\?([^"]*cursor=[^"]*)"', shown)
        address = f"{AGENTS}?{found[1].replace('&amp;', '&')}" if found else ""
    assert met == made[::-1]
    assert len(costs) == 1
    assert "this is the first one" in words(client.get(f"{AGENTS}?cursor=x"))
