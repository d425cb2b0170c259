"""`build_query`: plain words become a request that `search` takes, or a clear refusal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.db.backends.signals import connection_created
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.agent_sessions.contracts.search import BuiltQuery, SearchPostRequest
from apps.agent_sessions.models import ModelUsage
from apps.agent_sessions.runtime.derived import derive
from apps.agent_sessions.services.building import _issues, draft
from apps.agent_sessions.services.provider_keys import set_provider_key
from apps.core import clock
from tests.conftest import Service
from tests.loopback_provider import SENTINEL, Answer, Provider, fails, hands_in, loopback_provider, says

KEY = "sk-sentinel-of-a-key-4711"
MODEL = "acme/test-model"


@pytest.fixture
def provider(settings: Any, tmp_path: Path, service: Service) -> Iterator[Provider]:
    """A provider on loopback that the Project has a key for."""
    with loopback_provider() as server:
        models = tmp_path / "models.yaml"
        models.write_text(
            f"providers:\n  acme: {{kind: openai, base_url: {server.base_url('openai')}, models: [test-model]}}\n"
            f"allow_hosts: ['{server.host}']\n"
        )
        settings.LOOMSVC = replace(settings.LOOMSVC, models_file=models, data_dir=tmp_path)
        set_provider_key(project_id=service.caller.project_id, provider="acme", key=KEY, by="test", now=clock.now())
        yield server


def build(service: Service, wish: str, model: str = MODEL) -> dict[str, Any]:
    return service.call("build_query", wish=wish, model=model)


@pytest.mark.rule("B7")
def test_no_connection_to_the_ledger_is_held_while_a_model_thinks(service: Service, provider: Provider) -> None:
    provider.answers = [hands_in({"query": "release notes"})]
    opened: list[Any] = []

    def note(**_: Any) -> None:
        opened.append(len(provider.requests))

    service.call("list_models")
    connection_created.connect(note)
    try:
        assert build(service, "release notes") == {"query": "release notes"}
    finally:
        connection_created.disconnect(note)
    assert opened == [1], "for its usage, once the model has answered"


@pytest.mark.rule("B7", "B6")
def test_offline_makes_the_same_sensible_query_each_time(service: Service) -> None:
    wish = "Please find the Release notes that we wrote about spring 2026, will you?"
    assert build(service, wish, "offline") == build(service, wish, "offline")
    assert build(service, wish, "offline") == {"query": "release notes spring 2026"}
    assert service.call("search", **build(service, wish, "offline")) == {"results": []}
    assert build(service, "東京の会議", "offline") == {"query": "東京 京の の会 会議"}


@pytest.mark.rule("B7")
@given(st.text(min_size=1, max_size=300))
@settings(max_examples=50, deadline=None)
def test_every_wish_has_a_draft_that_search_takes(wish: str) -> None:
    wish = wish.replace("\x00", "").encode("utf-8", "ignore").decode()
    if not wish.strip():
        return
    derived = derive(BuiltQuery.wire_schema(), {"wish": wish, "query": draft(wish)})
    assert SearchPostRequest.parse(derived).query == draft(wish)


@pytest.mark.rule("B7")
def test_a_model_s_request_is_repaired_within_bounds_and_its_usage_counted(
    service: Service, provider: Provider
) -> None:
    provider.answers = [
        hands_in({"query": " ", "limit": 5}),
        hands_in({"query": "release notes", "source": "web"}),
        hands_in({"query": "release notes", "limit": 5}),
    ]
    assert build(service, "the five best release notes") == {"query": "release notes", "limit": 5}
    assert len(provider.requests) == 3
    usage = ModelUsage.objects.get(model=MODEL)
    assert (usage.requests, usage.sessions, usage.input_tokens > 0) == (3, 0, True)
    assert provider.requests[0].headers["authorization"] == f"Bearer {KEY}"


@pytest.mark.rule("B7", "B4")
@pytest.mark.parametrize(
    ("answers", "recovery"),
    [
        ([hands_in({"query": ""})], None),
        ([hands_in({"question": "x"})], None),
        ([says("I would rather not.")], None),
        ([fails(500)], None),
        ([fails(401, "invalid_api_key")], "configure_provider_key"),
        ([Answer(body="{")], None),
    ],
    ids=["never valid", "another shape", "no request", "an error", "refused key", "broken"],
)
def test_a_model_that_comes_to_no_request_is_a_clear_refusal(
    service: Service, provider: Provider, answers: list[Answer], recovery: str | None
) -> None:
    provider.answers = answers
    refused = build(service, "the release notes")
    error = refused["error"]
    assert (error["code"], error["reason"]) == ("unavailable", "model_failed")
    assert (error["recovery"] or {}).get("action") == recovery
    assert SENTINEL not in str(refused) and KEY not in str(refused)
    assert len(provider.requests) <= 3


@pytest.mark.rule("B4", "B5")
def test_a_model_without_a_key_says_where_to_enter_one(service: Service, provider: Provider) -> None:
    from apps.agent_sessions.services.provider_keys import remove_provider_key

    remove_provider_key(project_id=service.caller.project_id, provider="acme")
    error = build(service, "the release notes")["error"]
    assert (error["code"], error["reason"]) == ("unavailable", "provider_key_missing")
    assert error["recovery"]["setup_url"].endswith("/trials/acme")
    assert provider.requests == []


@pytest.mark.rule("B4", "E3")
def test_every_issue_of_an_invalid_call_is_told(service: Service) -> None:
    def issues(**arguments: Any) -> list[tuple[str, str]]:
        told = service.call("build_query", **arguments)["error"]["validation"]["issues"]
        return [(one["path"], one["code"]) for one in told]

    assert issues() == [("/wish", "required"), ("/model", "required")]
    assert issues(wish=" ", model="offline") == [("/wish", "value")]
    assert issues(wish="x", model="oflline") == [("/model", "choice")]


@pytest.mark.rule("B7")
@pytest.mark.parametrize(
    ("output", "path"),
    [
        ({"query": "x"}, None),
        ({"query": "!?"}, "/query"),
        ({"query": "x", "limit": 500}, "/limit"),
        ({"query": "x", "source": "web"}, "/source"),
        ({"query": "x", "source": "ledger"}, None),
        ([], ""),
    ],
)
def test_what_a_model_hands_in_is_held_to_what_search_takes(output: Any, path: str | None) -> None:
    assert [issue.path for issue in _issues(output)] == ([] if path is None else [path])
