"""Whatever a provider does wrong, a background agent ends as a clear ``failed`` that its client can read (B3, B6)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from background_agents import Client

from apps.agent_sessions.runtime.ended import Limits
from apps.agent_sessions.services import provider_keys, working
from apps.core import clock
from tests.conftest import Service
from tests.loopback_provider import FAILURES, SENTINEL, Answer, Provider, hands_in, loopback_provider

KEY = "sk-of-the-project-4711"
SCHEMA = {"type": "object", "properties": {"answer": {"type": "integer"}}, "required": ["answer"]}


@pytest.fixture(params=["openai", "anthropic"])
def provider(request: Any, service: Service, settings: Any, tmp_path: Path) -> Iterator[Provider]:
    with loopback_provider() as found:
        file = tmp_path / "models.yaml"
        described = f"{{kind: {request.param}, base_url: '{found.base_url(request.param)}', models: [m]}}"
        file.write_text(f"providers: {{loop: {described}}}\nallow_hosts: ['{found.host}']\n")
        settings.LOOMSVC = replace(settings.LOOMSVC, models_file=file, data_dir=tmp_path)
        project_id = service.caller.project_id
        provider_keys.set_provider_key(project_id=project_id, provider="loop", key=KEY, by="op", now=clock.now())
        yield found


def _ended(service: Service, provider: Provider, answers: list[Answer]) -> dict[str, Any]:
    provider.answers = answers
    client = Client(service)
    started = client.start(model="loop/m", output_schema=SCHEMA)
    assert started["state"] == "queued"
    client.work()
    status = client.status()
    assert status == client.status()
    assert status["agent_session_id"] == started["agent_session_id"]
    return status


@pytest.mark.rule("B2", "B3")
def test_an_agent_on_each_wire_succeeds_with_what_fits_its_schema(service: Service, provider: Provider) -> None:
    status = _ended(service, provider, [hands_in({"answer": 5})])
    assert (status["state"], status["output"], status["error"]) == ("succeeded", {"answer": 5}, None)


@pytest.mark.rule("B3", "B6", "FR-H1")
@pytest.mark.parametrize(
    ("answers", "because", "recovery", "requests"), [one[1:] for one in FAILURES], ids=[one[0] for one in FAILURES]
)
def test_each_way_of_failing_is_a_clear_failed_with_its_recovery(
    service: Service,
    provider: Provider,
    answers: list[Answer],
    because: str,
    recovery: str | None,
    requests: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(working, "Limits", partial(Limits, retry_seconds=0.02, request_seconds=5))
    status = _ended(service, provider, answers)
    assert (status["state"], status["output"]) == ("failed", None)
    error = status["error"]
    assert (error["code"], error["reason"]) == ("model_request_failed", because)
    assert error["message"]
    assert (error.get("recovery") or {}).get("action") == recovery
    if recovery == "configure_provider_key":
        assert error["recovery"]["setup_url"].endswith("/setup/trials/loop")
    assert status["usage"]["requests"] == len(provider.requests) == requests
    for secret in (SENTINEL, KEY, provider.host):
        assert secret not in str(status)


@pytest.mark.rule("B3", "B6")
def test_outputs_that_never_fit_and_a_slow_provider_are_clear_too(
    service: Service, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    never = _ended(service, provider, [hands_in({"answer": "five"})])
    assert (never["state"], never["error"]["code"]) == ("failed", "agent_output_invalid")
    monkeypatch.setattr(working, "Limits", partial(Limits, request_seconds=0.2))
    slow = _ended(service, provider, [hands_in({"answer": 5}, seconds=1.0)])
    assert (slow["state"], slow["error"]["reason"]) == ("failed", "request_timed_out")
