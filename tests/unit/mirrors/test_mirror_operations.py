"""Which Operations brought a Run to a boundary, told from its events (M1)."""

from __future__ import annotations

from typing import Any

import pytest

from apps.mirrors.domain.operations import TELLING, group_of, made_before


def event(name: str, **data: Any) -> tuple[str, dict[str, Any]]:
    return name, data


ADMITTED, FORKED, RESTORED = event("RunAdmitted"), event("RunForked"), event("RunRestored")
ASKED, PAUSED, RESUMED = event("PauseRequested"), event("RunPaused", boundary=1), event("RunResumed")
ONE_STEP, TROUBLE = event("RunResumed", steps=1), event("RunPaused", error={"code": "FORBIDDEN"})


@pytest.mark.rule("M1")
@pytest.mark.parametrize(
    ("events", "made"),
    [
        ([], {}),
        ([ADMITTED], {"run": 1}),
        ([ADMITTED, event("ActionAnswered"), event("ActionAnswered")], {"run": 1, "answer_ask": 2}),
        ([ADMITTED, ASKED], {"run": 1, "pause_run": 1}),
        ([ADMITTED, ASKED, PAUSED], {"run": 1, "pause_run": 1}),
        ([ADMITTED, PAUSED], {"run": 1, "pause_run": 1}),
        ([ADMITTED, PAUSED, RESUMED, PAUSED], {"run": 1, "pause_run": 2, "resume_run": 1}),
        ([ADMITTED, PAUSED, ONE_STEP, PAUSED], {"run": 1, "pause_run": 1, "resume_run": 1}),
        ([ADMITTED, PAUSED, ONE_STEP, PAUSED, RESUMED, PAUSED], {"run": 1, "pause_run": 2, "resume_run": 2}),
        ([ADMITTED, TROUBLE, RESUMED], {"run": 1, "resume_run": 1}),
        ([ADMITTED, ASKED, TROUBLE, RESUMED, PAUSED], {"run": 1, "pause_run": 2, "resume_run": 1}),
        ([FORKED, PAUSED, RESUMED], {"fork_run": 1, "resume_run": 1}),
        ([RESTORED, PAUSED, RESUMED], {"resume_run": 1}),
        ([ADMITTED, event("RunCancelled")], {"run": 1, "cancel_run": 1}),
    ],
)
def test_each_event_that_an_operation_made_counts_once(events: list[Any], made: dict[str, int]) -> None:
    assert dict(made_before(events)) == made
    assert {kind for kind, _ in events} <= set(TELLING)


def test_an_answer_in_a_form_is_an_answer() -> None:
    assert group_of("interact") == group_of("answer_ask") == "answer_ask"
    assert group_of("pause_run") == "pause_run"
