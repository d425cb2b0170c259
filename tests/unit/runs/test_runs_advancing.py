"""Truth tables: what comes after a segment."""

from __future__ import annotations

import pytest

from apps.looms.domain.graph import CodeStepSpec, LoomGraph, Retry, StageSpec
from apps.runs.domain.advancing import (
    Complete,
    Fail,
    GoOn,
    SegmentPolicy,
    after_failure,
    after_interruption,
    check_outcome,
    follow,
    policy_of,
    start,
)
from apps.runs.domain.facts import Due, Position
from apps.runs.domain.statuses import RunErrorCode, SegmentKind


def code(name: str, on: dict[str, str], **more: object) -> CodeStepSpec:
    values: dict[str, object] = {
        "name": name, "code": "steps:x", "timeout_seconds": None, "retry": None, "rerun_on_interrupt": False,
        "max_visits": 3, "on": on, **more,
    }  # fmt: skip
    return CodeStepSpec(**values)  # type: ignore[arg-type]


GRAPH = LoomGraph(
    loom="l",
    title="",
    description="",
    input=None,
    settings=None,
    requires=(),
    exclusive=False,
    entry="one",
    stages={
        "one": StageSpec(
            name="one",
            state="s:S",
            initialize="s:i",
            entry="a",
            steps={
                "a": code("a", {"next": "b", "out": "end", "again": "a"}),
                "b": code("b", {"lost": "end"}, timeout_seconds=2.0, retry=Retry(3, 1.0, ("OSError",))),
            },
            on={"out": "two"},
        ),
        "two": StageSpec(
            name="two",
            state="s:S",
            initialize="s:i",
            entry="c",
            steps={"c": code("c", {"done": "end"}, rerun_on_interrupt=True)},
            on={"done": "end"},
        ),
    },
)
AT_A = Position("one", "a", 1)


@pytest.mark.rule("R7")
def test_a_run_begins_with_the_initializer_of_its_entry_stage() -> None:
    ahead = start(GRAPH)
    assert (ahead.position, ahead.due, ahead.visits) == (AT_A, Due(SegmentKind.INITIALIZE), {"one/a": 1})


@pytest.mark.rule("R7", "R10")
@pytest.mark.parametrize(
    ("position", "outcome", "expected"),
    [
        (AT_A, "next", GoOn(Position("one", "b", 1), Due(SegmentKind.STEP), {"one/a": 1, "one/b": 1}, False)),
        (AT_A, "again", GoOn(Position("one", "a", 2), Due(SegmentKind.STEP), {"one/a": 2}, False)),
        (AT_A, "out", GoOn(Position("two", "c", 1), Due(SegmentKind.INITIALIZE), {"one/a": 1, "two/c": 1}, True)),
        (Position("two", "c", 1), "done", Complete("done")),
    ],
)
def test_an_outcome_leads_to_a_step_a_stage_or_the_end(position: Position, outcome: str, expected: object) -> None:
    assert follow(GRAPH, position, outcome, {"one/a": 1}) == expected


@pytest.mark.rule("R7")
@pytest.mark.parametrize(
    ("position", "outcome", "handled"),
    [(AT_A, "next", True), (AT_A, "Next", False), (AT_A, " next", False), (Position("one", "b", 1), "lost", False)],
)
def test_outcomes_are_exact_and_must_be_routed_by_step_and_stage(
    position: Position, outcome: str, handled: bool
) -> None:
    error = check_outcome(GRAPH, position, outcome)
    assert (error is None) is handled
    if error is not None:
        assert error.code is RunErrorCode.STEP_OUTCOME_NOT_HANDLED


@pytest.mark.rule("R7")
@pytest.mark.parametrize(("visits", "fails"), [(2, False), (3, True), (4, True)])
def test_a_step_is_visited_at_most_max_visits_times(visits: int, fails: bool) -> None:
    ahead = follow(GRAPH, AT_A, "again", {"one/a": visits})
    assert isinstance(ahead, Fail) is fails
    if isinstance(ahead, Fail):
        assert ahead.error.code is RunErrorCode.LOOP_LIMIT


@pytest.mark.rule("R12", "R13")
@pytest.mark.parametrize(
    ("position", "kind", "limit"),
    [
        (AT_A, SegmentKind.STEP, 1),
        (AT_A, SegmentKind.INITIALIZE, 3),
        (Position("one", "b", 1), SegmentKind.STEP, 1),
        (Position("two", "c", 1), SegmentKind.STEP, 3),
        (Position("two", "c", 1), SegmentKind.CONTINUATION, 3),
    ],
)
def test_how_often_lost_workers_may_cost_a_segment(position: Position, kind: SegmentKind, limit: int) -> None:
    policy = policy_of(GRAPH, position, kind)
    assert policy.interruption_limit == limit
    for attempts in range(limit - 1):
        assert after_interruption(policy, Due(kind, attempts)) is None
    error = after_interruption(policy, Due(kind, limit - 1))
    assert error is not None
    assert error.code is RunErrorCode.RUN_INTERRUPTED


@pytest.mark.rule("R13", "B9")
def test_a_step_whose_model_may_have_been_asked_is_not_begun_again_and_says_so() -> None:
    asked = SegmentPolicy.from_json(SegmentPolicy(interruption_limit=1, model_asked=True).to_json())
    error = after_interruption(asked, Due(SegmentKind.STEP))
    assert error is not None
    assert "nothing is sent again" in error.message
    assert "on_interrupt" not in error.message
    # A row from before there were models has no such member.
    older = {name: value for name, value in SegmentPolicy().to_json().items() if name != "model_asked"}
    assert SegmentPolicy.from_json(older) == SegmentPolicy()


@pytest.mark.rule("R12")
@pytest.mark.parametrize(
    ("attempts", "names", "seconds"),
    [(0, ["OSError"], 1.0), (1, ["OSError"], 2.0), (2, ["OSError"], None), (0, ["ValueError"], None), (0, [], None)],
)
def test_a_declared_retry_answers_its_exceptions_with_doubling_backoff(
    attempts: int, names: list[str], seconds: float | None
) -> None:
    policy = SegmentPolicy.from_json(policy_of(GRAPH, Position("one", "b", 1), SegmentKind.STEP).to_json())
    later = after_failure(policy, Due(SegmentKind.STEP, attempts), error_names=names)
    assert (later.seconds if later else None) == seconds
