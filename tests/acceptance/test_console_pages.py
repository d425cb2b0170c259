"""The console's pages of Looms, Artifacts, Mirrors, credentials and workers, used in Chromium at a real service."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.screenshots.browser import chromium, chromium_path, signed_in
from tests.screenshots.sample import Sample

pytestmark = [
    pytest.mark.skipif(
        chromium_path() is None and not os.environ.get("LOOMSVC_REQUIRE_SERVICES"), reason="there is no Chromium"
    ),
    pytest.mark.timeout(120),
]


@pytest.fixture(scope="module")
def page(console: Sample) -> Iterator[Page]:
    """Signed in; whatever the browser finds wrong fails the test that follows."""
    with chromium() as browser:
        context = signed_in(browser, console.url, console.username, console.password)
        found = context.new_page()
        found.set_default_timeout(20_000)
        problems: list[str] = []
        found.on("pageerror", lambda error: problems.append(str(error)))
        found.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
        yield found
        assert problems == []


@pytest.mark.rule("K2", "K3", "K25")
def test_a_credential_is_made_by_keyboard_works_and_is_revoked(page: Page, console: Sample) -> None:
    page.goto("/admin/console/access/")
    page.locator("#new summary").focus()
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    page.keyboard.press("Enter")
    page.locator("#source").select_option("studio")
    page.locator("#label").focus()
    page.keyboard.type("A browser's")
    page.keyboard.press("Enter")
    token = page.locator("#token").input_value()
    assert outline != "none"
    assert token.startswith("loom_")
    headers = {"Authorization": f"Bearer {token}"}
    assert page.request.get("/api/v1/runs", headers=headers).status == 200
    page.goto("/admin/console/access/")
    row = page.locator("tr", has_text="A browser's")
    expect(row).to_contain_text("live")
    assert token not in page.content()
    row.locator("summary").click()
    row.locator("button").click()
    expect(page.locator(".messages")).to_contain_text("is revoked: it opens nothing any more")
    assert page.request.get("/api/v1/runs", headers=headers).status == 401
    page.goto("/admin/console/audit/")
    expect(page.locator("#accounts tr", has_text="for studio in Project default")).to_contain_text(console.username)


def test_a_loom_is_looked_at_and_two_releases_are_compared(page: Page) -> None:
    page.goto("/admin/console/looms/")
    page.get_by_role("link", name="notes", exact=True).click()
    expect(page.get_by_role("img", name="Graph of Loom notes")).to_be_visible()
    page.get_by_text("As a table").click()
    expect(page.get_by_role("cell", name="code steps:go")).to_be_visible()
    page.get_by_role("button", name="Compare").click()
    expect(page.locator("main")).to_contain_text("2 files differ")
    expect(page.locator("tr.added", has_text="Notes, better")).to_be_visible()


@pytest.mark.rule("S4")
def test_what_changed_in_an_artifact_is_three_clicks_away(page: Page, console: Sample) -> None:
    page.goto("/admin/")
    page.get_by_role("link", name="Artifacts", exact=True).click()
    page.get_by_role("link", name=console.artifact).click()
    expect(page.locator("tr.removed")).to_contain_text("The console shows what waits for a person.")
    expect(page.locator("tr.added")).to_contain_text("The console shows what waits for you.")
    expect(page.get_by_role("cell", name="replace")).to_be_visible()


@pytest.mark.rule("M3", "M5")
def test_a_mirror_is_verified_planned_and_restored(page: Page, console: Sample) -> None:
    page.goto("/admin/console/mirrors/")
    page.get_by_role("link", name=console.mirror[-8:]).click()
    page.get_by_role("link", name="compute every digest anew").click()
    expect(page.locator("main")).to_contain_text("verified")
    page.locator("#scope").select_option("run")
    page.get_by_role("button", name="Show the plan").click()
    expect(page.locator(".plan")).to_contain_text("paused at the boundary, as a new Run")
    page.get_by_role("button", name="Restore into default").click()
    expect(page.locator("h1")).to_contain_text("paused")
    page.goto("/admin/console/audit/")
    expect(page.locator("#accounts")).to_contain_text(
        f"restored the Run, paused at the boundary of Mirror {console.mirror}"
    )


@pytest.mark.rule("FR-I13")
def test_workers_are_followed_while_they_work(page: Page, console: Sample) -> None:
    page.goto("/admin/console/health/")
    expect(page.locator("#live")).to_contain_text("open since")
    run_id = console.up.start("trial", {"do": [{"seconds": 5}]})
    row = page.locator("#live tr", has_text=run_id[-8:])
    expect(row).to_contain_text("beats", timeout=4000)
    expect(row).to_have_count(0, timeout=15_000)


@pytest.mark.rule("O10")
def test_an_operation_leads_from_its_id_to_its_run(page: Page, console: Sample) -> None:
    page.goto("/admin/console/audit/")
    page.locator("#operation-id").fill(console.operation)
    page.keyboard.press("Enter")
    expect(page.locator("h2")).to_contain_text("pause_run")
    page.locator("dd a.mono").click()
    page.wait_for_url(re.compile("/admin/console/runs/"))
    expect(page.locator("h1")).to_contain_text("trial")
