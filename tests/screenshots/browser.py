"""Debian's Chromium, signed in at a console."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from playwright.sync_api import Browser, BrowserContext, sync_playwright

Scheme = Literal["light", "dark"]
SCHEMES: tuple[Scheme, ...] = ("light", "dark")
WIDE, PHONE = (1280, 800), (375, 740)


def chromium_path() -> str | None:
    """``CHROMIUM``, else what is installed; ``None`` when there is none."""
    return os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")


@contextmanager
def chromium() -> Iterator[Browser]:
    """One browser process; pages come from contexts of it."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium_path(), args=["--no-sandbox", "--disable-gpu", "--force-color-profile=srgb"]
        )
        yield browser
        browser.close()


def signed_in(
    browser: Browser, url: str, username: str, password: str, *, scheme: Scheme = "light", size: tuple[int, int] = WIDE
) -> BrowserContext:
    """A context with a session of its own, as a person gets it: by the sign-in page."""
    width, height = size
    context = browser.new_context(
        base_url=url,
        color_scheme=scheme,
        viewport={"width": width, "height": height},
        reduced_motion="reduce",
        locale="en-GB",
    )
    page = context.new_page()
    page.goto("/admin/login/?next=/admin/console/rows/")
    page.fill("#id_username", username)
    page.fill("#id_password", password)
    page.click("[type=submit]")
    page.wait_for_url("**/admin/console/rows/")
    page.close()
    return context
