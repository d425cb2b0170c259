"""A key on its way: asked for, entered by a person in Chromium, tested, and used by a background agent."""

# ruff: noqa: F811 - the fixtures come from local_service and test_console
from __future__ import annotations

import time
from pathlib import Path

import pytest
from local_service import Services, services  # noqa: F401
from playwright.sync_api import Browser, expect
from test_console import browser  # noqa: F401

from tests.loopback_provider import fails, loopback_provider, says

KEY = "sk-page-sentinel-52c1f0aa-WXYZ"


@pytest.mark.timeout(300)
@pytest.mark.rule("B5", "K5", "K17")
def test_a_missing_key_is_entered_where_the_refusal_says_and_then_works(
    services: Services, browser: Browser, tmp_path: Path
) -> None:
    with loopback_provider() as provider:
        models = tmp_path / "models.yaml"
        base = provider.base_url("openai")
        models.write_text(
            f"providers:\n  acme: {{kind: openai, base_url: '{base}', models: [m]}}\nallow_hosts: [127.0.0.1]\n"
        )
        service = services.up(tmp_path / "data", LOOMSVC_MODELS=str(models))
        refused = service.command("run_agent", "acme/m", "--input", '"hello"', "--json")
        assert refused.returncode == 1
        (listed,) = [model for model in service.rest("/api/v1/models")["models"] if model["id"] == "acme/m"]
        assert listed["setup_url"].startswith(service.url) and listed["setup_url"] in refused.stdout

        operator = next(event for event in service.events if event["event"] == "operator")
        page = browser.new_context().new_page()
        wrong: list[str] = []
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("console", lambda said: wrong.append(said.text) if said.type == "error" else None)
        page.goto(listed["setup_url"])
        page.get_by_label("Username").fill(operator["username"])
        page.get_by_label("Password").fill(operator["password"])
        page.keyboard.press("Enter")
        expect(page.get_by_text("There is no key yet.")).to_be_visible()
        page.get_by_label("The key").fill(KEY)
        page.get_by_role("button", name="Keep it").click()
        expect(page.get_by_text("ends with WXYZ")).to_be_visible()
        assert KEY not in page.content()
        provider.answers = [fails(401), says("yes"), says("done")]
        page.get_by_role("button", name="Test it").click()
        expect(page.get_by_text("provider_key_refused").first).to_be_visible()
        page.get_by_role("button", name="Test it").click()
        expect(page.get_by_text("UTC: works.")).to_be_visible()
        assert wrong == []

        started = service.rest("/api/v1/agents", {"model": "acme/m", "input": "hello"})
        proof = {"session_secret": started["session_secret"]}
        ends = time.monotonic() + 20
        while (status := service.rest(f"/api/v1/agents/{started['id']}/status", proof))["state"] != "succeeded":
            assert time.monotonic() < ends and status["state"] != "failed", status
            time.sleep(0.05)
        assert (status["state"], status["output"]) == ("succeeded", "done")
        assert {seen.headers["authorization"] for seen in provider.requests} == {f"Bearer {KEY}"}
        page.get_by_role("button", name="Forget it").click()
        expect(page.get_by_text("There is no key yet.")).to_be_visible()
