"""axe finds nothing serious on any page of the console, light or dark, at a real service."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext

from tests.screenshots.browser import SCHEMES, Scheme, chromium, chromium_path, signed_in
from tests.screenshots.sample import Sample

pytestmark = pytest.mark.skipif(
    chromium_path() is None and not os.environ.get("LOOMSVC_REQUIRE_SERVICES"), reason="there is no Chromium"
)
#: Everything in one scheme; of the other one only what colours change.
_RULES = {
    "light": {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]},
    "dark": {"type": "rule", "values": ["color-contrast", "link-in-text-block"]},
}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.mark.timeout(240)
@pytest.mark.rule("K16")
@pytest.mark.parametrize("scheme", SCHEMES)
def test_axe_finds_nothing_serious_on_any_page(console: Sample, browser: Browser, scheme: Scheme) -> None:
    context = signed_in(browser, console.url, console.username, console.password, scheme=scheme)
    found = {name: findings(context, address, scheme) for name, address in console.pages().items()}
    stranger = browser.new_context(base_url=console.url, color_scheme=scheme)
    found["sign-in"] = findings(stranger, "/admin/login/", scheme)
    assert {name: each for name, each in found.items() if each} == {}


def findings(context: BrowserContext, address: str, scheme: Scheme) -> list[str]:
    """What axe calls serious or critical, with everything that can be opened open: rule and place."""
    page = context.new_page()
    page.goto(address)
    page.evaluate("document.querySelectorAll('main details').forEach(each => { each.open = true })")
    results = Axe().run(page, options={"runOnly": _RULES[scheme], "resultTypes": ["violations"]})
    page.close()
    return [
        f"{violation['id']}: {node['html'][:160]} {node['failureSummary'][:200]}"
        for violation in results.response["violations"]
        if violation["impact"] in ("serious", "critical")
        for node in violation["nodes"][:3]
    ]
