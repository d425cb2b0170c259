"""The official suite: its releases, where they are kept, and what a run of one found."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.conformance.judging import Check

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "loomsvc" / "conformance"
#: Against a suite that hangs; the longest takes ten seconds.
_SECONDS = 300


@dataclass(frozen=True)
class Suite:
    """One run: a release of the suite, at one revision of the protocol."""

    release: str
    revision: str
    options: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.revision}, suite {self.release}"


_STABLE, _NEWEST = "0.1.13", "0.2.0-alpha.12"
SUITES = (
    Suite(_STABLE, "2025-11-25"),
    *(
        Suite(_NEWEST, revision, ("--spec-version", revision))
        for revision in ("2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28")
    ),
)
#: The newest release needs a newer Node than most machines have; npm serves that too.
_PACKAGES = (
    *(f"conformance-{release}@npm:@modelcontextprotocol/conformance@{release}" for release in (_STABLE, _NEWEST)),
    "node@22.23.3",
)


def install() -> None:
    """Put all releases, and their Node, into the cached folder, unless they are there."""
    done = CACHE / "installed"
    if done.exists() and done.read_text().split() == list(_PACKAGES):
        return
    if shutil.which("npm") is None:
        raise SystemExit("The conformance suite comes from npm, which is not on PATH: install Node and npm.")
    print(f"Setting up the conformance suite in {CACHE} (once) …", flush=True)
    shutil.rmtree(CACHE, ignore_errors=True)
    CACHE.mkdir(parents=True)
    (CACHE / "package.json").write_text('{"private": true}')
    subprocess.run(["npm", "install", "--no-audit", "--no-fund", "--loglevel=error", *_PACKAGES], cwd=CACHE, check=True)
    done.write_text("\n".join(_PACKAGES))


def run(suite: Suite, url: str) -> list[Check]:
    """Every server scenario of the suite against the service at ``url``."""
    modules = CACHE / "node_modules"
    program = modules / f"conformance-{suite.release}" / "dist" / "index.js"
    with tempfile.TemporaryDirectory() as folder:
        command = [modules / ".bin" / "node", program, "server", "--url", url, "--suite", "all", *suite.options]
        done = subprocess.run(
            [*command, "--output-dir", folder], cwd=folder, capture_output=True, text=True, timeout=_SECONDS
        )
        if "\nTotal: " not in done.stdout:
            raise SystemExit(f"The suite ({suite.name}) did not come to its end:\n{done.stdout}{done.stderr}")
        return [check for file in sorted(Path(folder).glob("*/checks.json")) for check in _checks(file)]


def _checks(file: Path) -> Iterator[Check]:
    # server-<scenario>-<time of the run>
    scenario = re.fullmatch(r"server-(.+)-\d{4}-\d\d-\d\dT[\d-]+Z", file.parent.name)
    assert scenario is not None, file
    for row in json.loads(file.read_text()):
        yield Check(scenario[1], row["id"], row["status"], row.get("errorMessage") or "")
