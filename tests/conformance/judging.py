"""What a run of the suite comes to: pure, so that a wrong verdict is found without Node."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

#: (scenario, check) → why it fails here.
Expected = Mapping[tuple[str, str], str]

_BAD = ("FAILURE", "WARNING")


@dataclass(frozen=True)
class Check:
    """One thing that a scenario looked at; an id may come several times, each time for another case."""

    scenario: str
    id: str
    status: str
    message: str = ""


@dataclass
class Verdict:
    """One scenario at one revision."""

    scenario: str
    passed: int = 0
    skipped: int = 0
    #: Reasons of the checks that failed as they were expected to.
    expected: list[str] = field(default_factory=list)
    #: What is wrong: failures that nobody expected, and expected ones that did not come.
    wrong: list[str] = field(default_factory=list)

    @property
    def word(self) -> str:
        if self.wrong:
            return "FAILED"
        return "expected" if self.expected else "passed" if self.passed else "skipped"


def judge(checks: Iterable[Check], expected: Expected) -> list[Verdict]:
    """One verdict a scenario, in the order of the checks.

    A check that is expected to fail must fail whenever it comes; a warning of the suite is a failure.
    """
    cases: dict[tuple[str, str], list[Check]] = defaultdict(list)
    verdicts: dict[str, Verdict] = {}
    for check in checks:
        cases[check.scenario, check.id].append(check)
    for (scenario, name), found in cases.items():
        verdict = verdicts.setdefault(scenario, Verdict(scenario))
        bad = [case for case in found if case.status in _BAD]
        reason = expected.get((scenario, name))
        if bad and reason:
            verdict.expected.append(reason)
        elif bad:
            verdict.wrong += [f"{name}: {case.message}" for case in bad]
        elif any(case.status == "SUCCESS" for case in found):
            verdict.passed += 1
            if reason:
                verdict.wrong.append(f"{name}: passes, so it must be expected to fail no more ({reason})")
        else:
            verdict.skipped += 1
    return list(verdicts.values())


def unseen(runs: Iterable[Iterable[Check]], expected: Expected) -> list[tuple[str, str]]:
    """Expected failures that failed in no run: the suite does not know them any more, or skips them."""
    failed = {(check.scenario, check.id) for run in runs for check in run if check.status in _BAD}
    return [key for key in expected if key not in failed]
