"""`make conformance`: the official MCP suite against a real service, at every revision that it serves.

Exit status 0 means that every check passed, or failed as :mod:`tests.conformance.expected` says.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.acceptance.local_service import Services
from tests.conformance.expected import EXPECTED
from tests.conformance.judging import Check, Verdict, judge, unseen
from tests.conformance.proxy import proxying
from tests.conformance.suites import SUITES, install, run


def main() -> int:
    install()
    began = time.monotonic()
    runs: list[list[Check]] = []
    verdicts: list[Verdict] = []
    with _service() as url:
        for suite in SUITES:
            runs.append(run(suite, url))
            found = judge(runs[-1], EXPECTED)
            _show(suite.name, found)
            verdicts += found
    return _sum_up(verdicts, unseen(runs, EXPECTED), time.monotonic() - began)


@contextmanager
def _service() -> Iterator[str]:
    """`loomsvc up` with the test-only Tools, behind the proxy; the address for the suite."""
    services = Services()
    with tempfile.TemporaryDirectory() as folder:
        try:
            up = services.up(Path(folder), DJANGO_SETTINGS_MODULE="tests.conformance.settings")
            token = up.connection["entries"]["agent_ide"]["token"]
            with proxying(int(up.url.rpartition(":")[2]), token) as port:
                yield f"http://127.0.0.1:{port}/mcp"
        finally:
            services.end()


def _show(name: str, verdicts: list[Verdict]) -> None:
    print(f"\n{name}")
    for verdict in verdicts:
        counts = f"{verdict.passed} passed" + (f", {verdict.skipped} skipped" if verdict.skipped else "")
        why = "; ".join(dict.fromkeys(verdict.expected))
        print(f"  {verdict.word:9} {verdict.scenario:46} {counts}" + (f", expected to fail: {why}" if why else ""))
        for wrong in verdict.wrong:
            print(f"            {wrong}")
    sys.stdout.flush()


def _sum_up(verdicts: list[Verdict], gone: list[tuple[str, str]], seconds: float) -> int:
    words = Counter(verdict.word for verdict in verdicts)
    counts = ", ".join(f"{words[word]} {word}" for word in ("passed", "expected", "skipped", "FAILED") if words[word])
    print(f"\n{len(verdicts)} scenarios in {seconds:.0f} s: {counts}")
    for scenario, check in gone:
        print(
            f"Expected to fail, but did not come up: {scenario} / {check}; remove it from tests/conformance/expected.py"
        )
    return 1 if words["FAILED"] or gone else 0


if __name__ == "__main__":
    sys.exit(main())
