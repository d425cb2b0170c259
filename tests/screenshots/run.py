"""`make screenshots`: a picture of every page of the console, light and dark, wide and on a phone.

    python -m tests.screenshots.run [--only NAME …] [--folder FOLDER] [--docs]

``--docs`` also renews the pictures in ``docs/pictures``.

Needs Chromium (``CHROMIUM`` names it where it is not on the PATH).  Exit status 1 means that a page did
not answer as it should, wrote an error to the browser's console, or is wider than a phone.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from playwright.sync_api import BrowserContext

from tests.screenshots.browser import PHONE, SCHEMES, WIDE, chromium, chromium_path, signed_in
from tests.screenshots.sample import Sample, sample_service

ROOT = Path(__file__).parent.parent.parent


def main() -> int:
    parser = argparse.ArgumentParser(prog="make screenshots")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="pages to picture (default: all)")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "screenshots")
    parser.add_argument("--docs", action="store_true", help="renew the pictures of the documentation")
    options = parser.parse_args()
    if chromium_path() is None:
        print("There is no Chromium; install it, or name it by CHROMIUM.", file=sys.stderr)
        return 2
    options.folder.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, sample_service(Path(folder)) as sample:
        problems = _take(sample, options.only, options.folder)
        if options.docs:
            _for_the_docs(sample)
    print(f"{len(list(options.folder.glob('*.png')))} pictures in {options.folder.relative_to(ROOT)}"
          if options.folder.is_relative_to(ROOT) else f"Pictures in {options.folder}",
          f"({time.monotonic() - began:.0f} s)")  # fmt: skip
    print("\n".join(problems))
    return 1 if problems else 0


def _take(sample: Sample, only: list[str] | None, folder: Path) -> list[str]:
    pages = {name: address for name, address in sample.pages().items() if only is None or name in only}
    problems: list[str] = []
    with chromium() as browser:
        for scheme in SCHEMES:
            context = signed_in(browser, sample.url, sample.username, sample.password, scheme=scheme, size=WIDE)
            for name, address in pages.items():
                problems += _picture(context, name, address, folder / f"{name}-{scheme}.png", f"{name} ({scheme})")
            context.close()
        context = signed_in(browser, sample.url, sample.username, sample.password, size=PHONE)
        for name, address in pages.items():
            problems += _picture(context, name, address, folder / f"{name}-phone.png", f"{name} (phone)")
        context.close()
    return problems


def _for_the_docs(sample: Sample) -> None:
    """What a window of a usual size shows of a Run; small files, for they are kept."""
    with chromium() as browser:
        for scheme in SCHEMES:
            context = signed_in(browser, sample.url, sample.username, sample.password, scheme=scheme, size=(1240, 1040))
            page = context.new_page()
            page.goto(sample.pages()["run-agent"])
            page.screenshot(path=ROOT / "docs" / "pictures" / f"console-run-{scheme}.png")
            context.close()


def _picture(context: BrowserContext, name: str, address: str, file: Path, said: str) -> list[str]:
    page = context.new_page()
    problems: list[str] = []
    expected = 404 if name == "refused" else 200
    # Chromium notes an answer of 404 on its console; that one is asked for.
    page.on(
        "console", lambda m: problems.append(f"{said}: {m.text}") if m.type == "error" and expected == 200 else None
    )
    page.on("pageerror", lambda error: problems.append(f"{said}: {error}"))
    answer = page.goto(address)
    if answer is None or answer.status != expected:
        problems.append(f"{said}: answered {answer.status if answer else 'nothing'}")
    wider = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    if wider > 0:
        problems.append(f"{said}: {wider} pixels wider than the window")
    page.screenshot(path=file, full_page=True)
    page.close()
    return problems


if __name__ == "__main__":
    sys.exit(main())
