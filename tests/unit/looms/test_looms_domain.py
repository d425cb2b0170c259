"""Durations, routes, attempts and answers: the pure decisions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.looms.domain.answers import check_answers, check_confirmation
from apps.looms.domain.durations import MAX_SECONDS, format_duration, parse_duration
from apps.looms.domain.graph import AgentStepSpec, CodeStepSpec, LoomGraph, Retry, StageSpec, max_attempts
from apps.looms.domain.retrying import LONGEST_BACKOFF_SECONDS, retry_delay
from apps.looms.domain.routing import End, NextStage, NextStep, NotHandled, route


def code(name: str = "s", *, retry: Retry | None = None, rerun: bool = False, on: dict[str, str] | None = None):
    return CodeStepSpec(name, f"steps:{name}", None, retry, rerun, 1000, on or {"ok": "end"})


AGENT = AgentStepSpec("a", "writer", None, None, "schemas:Out", (), None, (), 1000, {"ok": "end"})


# -- durations


@given(st.integers(min_value=0, max_value=int(MAX_SECONDS) * 1000))
def test_every_duration_is_read_back_as_it_was_written(milliseconds: int) -> None:
    assert parse_duration(format_duration(milliseconds / 1000)) == milliseconds / 1000


@given(st.text(max_size=12))
def test_any_text_is_a_bounded_duration_or_refused(text: str) -> None:
    try:
        seconds = parse_duration(text)
    except ValueError:
        seconds = 0.0
    assert 0 <= seconds <= MAX_SECONDS


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("500ms", 0.5), ("30s", 30), ("2h", 7200), ("1h30m", 5400), ("1.5s", 1.5), ("1d", 86400), ("0s", 0)],
)
def test_durations_are_read(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "30", "s", "1s1h", "-1s", "1 s", "1S", "inf", "nan", "1e3s", "٣s", "367d", "1s "])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="Write a duration"):
        parse_duration(text)


# -- routing

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
            "one",
            None,
            None,
            "a",
            {
                "a": code("a", on={"go": "b", "done": "end", "lost": "end", "again": "a"}),
                "b": code("b", on={"stop": "end"}),
            },
            {"done": "two", "stop": "end"},
        ),
        "two": StageSpec("two", None, None, "c", {"c": code("c", on={"done": "end"})}, {"done": "end"}),
    },
)


@pytest.mark.rule("R7")
@pytest.mark.parametrize(
    ("stage", "step", "outcome", "expected"),
    [
        ("one", "a", "go", NextStep("one", "b")),
        ("one", "a", "again", NextStep("one", "a")),
        ("one", "a", "done", NextStage("two", "c")),
        ("one", "b", "stop", End("stop")),
        ("two", "c", "done", End("done")),
    ],
)
def test_outcomes_lead_where_the_graph_says(stage: str, step: str, outcome: str, expected: object) -> None:
    assert route(GRAPH, stage=stage, step=step, outcome=outcome) == expected


@pytest.mark.rule("R7")
@pytest.mark.parametrize("outcome", ["Done", "done ", "", "end", "two", "lost"])
def test_outcomes_are_exact_and_unknown_ones_are_not_handled(outcome: str) -> None:
    found = route(GRAPH, stage="one", step="a", outcome=outcome)
    assert isinstance(found, NotHandled)
    assert repr(outcome) in found.message


@given(st.dictionaries(st.text(min_size=1, max_size=5), st.sampled_from(["a", "b", "end"]), min_size=1), st.data())
def test_a_route_never_leaves_the_graph(routes: dict[str, str], data: st.DataObject) -> None:
    steps = {"a": code("a", on=routes), "b": code("b", on=routes)}
    leaving = {outcome for outcome, target in routes.items() if target == "end"}
    stage_routes = {outcome: data.draw(st.sampled_from(["two", "end"])) for outcome in leaving}
    stages = {"one": StageSpec("one", None, None, "a", steps, stage_routes), "two": GRAPH.stages["two"]}
    graph = LoomGraph("l", "", "", None, None, (), False, "one", stages)
    outcome = data.draw(st.sampled_from(sorted(routes)))
    found = route(graph, stage="one", step="a", outcome=outcome)
    if isinstance(found, End):
        assert found.outcome == outcome
    else:
        assert not isinstance(found, NotHandled)
        assert found.step in graph.stages[found.stage].steps


# -- attempts

RETRY = Retry(3, 2.0, ("ConnectionError",))
ANY = Retry(3, 2.0)


@pytest.mark.rule("R12")
@pytest.mark.parametrize(
    ("spec", "attempts"),
    [
        (code(), 1),
        (code(rerun=True), 3),
        (code(retry=Retry(5, 0)), 5),
        (code(retry=Retry(2, 0), rerun=True), 2),
        (AGENT, 1),
    ],
)
def test_attempts_of_a_segment(spec: CodeStepSpec | AgentStepSpec, attempts: int) -> None:
    assert max_attempts(spec) == attempts


@pytest.mark.rule("R12")
@pytest.mark.parametrize(
    ("retry", "attempt", "names", "delay"),
    [
        (RETRY, 1, ["ConnectionError"], 2.0),
        (RETRY, 2, ["ConnectionError"], 4.0),
        (RETRY, 3, ["ConnectionError"], None),
        (RETRY, 9, ["ConnectionError"], None),
        (RETRY, 1, ["ValueError", "Exception"], None),
        (RETRY, 1, ["ConnectionResetError", "ConnectionError", "OSError"], 2.0),
        (ANY, 1, ["ValueError"], 2.0),
        (ANY, 1, [], None),
        (None, 1, ["ValueError"], None),
        (Retry(3, 0.0), 1, ["ValueError"], 0.0),
    ],
)
def test_whether_and_when_an_exception_is_attempted_again(
    retry: Retry | None, attempt: int, names: list[str], delay: float | None
) -> None:
    assert retry_delay(retry, attempt=attempt, error_names=names) == delay


@given(st.integers(1, 99), st.floats(0, MAX_SECONDS))
def test_a_backoff_never_overflows(attempt: int, backoff: float) -> None:
    delay = retry_delay(Retry(100, backoff), attempt=attempt, error_names=["X"])
    assert delay is not None
    assert 0 <= delay <= LONGEST_BACKOFF_SECONDS


# -- answers

REQUEST = [
    {"id": "a", "question": "A?", "isSkippable": False},
    {"id": "b", "question": "B?", "isSkippable": True, "options": [{"id": "x", "label": "X"}]},
]
A = {"questionId": "a", "isSkipped": False, "answer": "yes"}
B = {"questionId": "b", "isSkipped": True}


@pytest.mark.rule("H1", "H3", "FR-B5")
@pytest.mark.parametrize(
    ("answer", "found"),
    [
        ([A, B], []),
        ([B, A], []),
        ([A, {**B, "isSkipped": False, "answer": "free text"}], []),
        ([A, {**B, "answer": None}], []),
        ([A], [("required", "")]),
        ([], [("required", ""), ("required", "")]),
        ([A, A, B], [("duplicate", "/1/questionId")]),
        ([A, B, {**A, "questionId": "c"}], [("unknown_question", "/2/questionId")]),
        ([{**A, "isSkipped": True}, B], [("not_skippable", "/0/isSkipped")]),
        ([A, {**B, "answer": "x"}], [("unknown_member", "/1/answer")]),
        ([{**A, "answer": "  "}, B], [("type", "/0/answer")]),
        ([{**A, "answer": 5}, B], [("type", "/0/answer")]),
        ([{"questionId": "a", "isSkipped": False}, B], [("required", "/0/answer")]),
        ([{**A, "isSkipped": "no"}, B], [("type", "/0/isSkipped")]),
        ([{**A, "more": 1}, B], [("unknown_member", "/0/more")]),
        (["yes", B], [("type", "/0"), ("required", "")]),
        ({"a": "yes"}, [("type", "")]),
        ([{**A, "answer": "a\x00"}, B], [("nul", "/0/answer")]),
    ],
)
def test_answers_to_questions(answer: object, found: list[tuple[str, str]]) -> None:
    assert [(issue.code, issue.path) for issue in check_answers(REQUEST, answer)] == found


@pytest.mark.rule("H2", "H3")
@pytest.mark.parametrize(
    ("answer", "found"),
    [
        ({"isConfirmed": True}, []),
        ({"isConfirmed": False, "feedback": "no"}, []),
        ({"isConfirmed": True, "feedback": None}, []),
        ({}, ["/isConfirmed"]),
        ({"isConfirmed": 1}, ["/isConfirmed"]),
        ({"isConfirmed": True, "feedback": 1}, ["/feedback"]),
        ({"isConfirmed": True, "why": ""}, ["/why"]),
        (True, [""]),
    ],
)
def test_answers_to_confirmations(answer: object, found: list[str]) -> None:
    assert [issue.path for issue in check_confirmation(answer)] == found
