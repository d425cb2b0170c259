"""Truth tables of answers: every combination of what may be asked and what may come back (H1, H2, H3)."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from apps.looms.domain.answers import check_answers, check_confirmation

#: A member that is left out.
ABSENT = object()
SKIPS = [True, False, ABSENT, None, 0, 1, "true"]
ANSWERS = [ABSENT, None, "x", "own words", " kept ", "", " \n\t", 5, True, ["x"], {"id": "x"}]
OPTIONS = [{"id": "x", "label": "X"}, {"id": "y", "label": "Y"}]


def entry(**members: Any) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value is not ABSENT}


def is_text(answer: Any) -> bool:
    return isinstance(answer, str) and bool(answer.strip())


@pytest.mark.rule("H1")
@pytest.mark.parametrize("options", [[], OPTIONS], ids=["free text", "options"])
@pytest.mark.parametrize("skippable", [True, False])
def test_one_question_is_answered_or_skipped_and_nothing_between(
    skippable: bool, options: list[dict[str, str]]
) -> None:
    request = [{"id": "a", "question": "A?", "isSkippable": skippable, "options": options}]
    for skipped, answer in itertools.product(SKIPS, ANSWERS):
        given = entry(questionId="a", isSkipped=skipped, answer=answer)
        as_skipped = skipped is True and skippable and (answer is ABSENT or answer is None)
        as_answered = skipped is False and is_text(answer)
        assert (check_answers(request, [given]) == []) == (as_skipped or as_answered), given


@pytest.mark.rule("H1")
def test_each_question_exactly_once_in_any_order_and_none_unknown() -> None:
    request = [{"id": name, "question": "?", "isSkippable": False} for name in "ab"]
    for given in itertools.chain.from_iterable(itertools.product("abc", repeat=size) for size in range(4)):
        answer = [{"questionId": name, "isSkipped": False, "answer": "x"} for name in given]
        assert (check_answers(request, answer) == []) == (sorted(given) == ["a", "b"]), given


@pytest.mark.rule("H1", "H3")
@pytest.mark.parametrize("wrong", [None, True, 0, "yes", {}, {"questionId": "a"}, [None], ["yes"], [[]], [{}]])
def test_what_is_no_list_of_answers_is_told_where(wrong: Any) -> None:
    issues = check_answers([{"id": "a", "question": "A?", "isSkippable": True}], wrong)
    assert issues
    assert {issue.path for issue in issues} <= {"", "/0", "/0/questionId", "/0/isSkipped"}
    assert all(issue.suggestion for issue in issues)


@pytest.mark.rule("H1", "H3")
def test_every_place_is_told_at_once() -> None:
    request = [{"id": name, "question": "?", "isSkippable": name == "c"} for name in "abc"]
    answer = [
        {"questionId": "a", "isSkipped": True},
        {"questionId": "b", "isSkipped": False, "answer": 1, "why": "x"},
        {"questionId": "c", "isSkipped": True, "answer": "x"},
        {"questionId": "d/~", "isSkipped": False, "answer": "x"},
    ]
    assert [issue.path for issue in check_answers(request, answer)] == [
        "/0/isSkipped",
        "/1/why",
        "/1/answer",
        "/2/answer",
        "/3/questionId",
    ]


@pytest.mark.rule("H2", "H3")
@pytest.mark.parametrize(
    ("confirmed", "feedback", "more"),
    itertools.product([True, False, ABSENT, 1, "yes"], [ABSENT, None, "", "because", 5], [ABSENT, None]),
)
def test_a_confirmation_is_true_or_false_and_perhaps_a_text(confirmed: Any, feedback: Any, more: Any) -> None:
    issues = check_confirmation(entry(isConfirmed=confirmed, feedback=feedback, more=more))
    wrong = {
        "/isConfirmed": not isinstance(confirmed, bool),
        "/feedback": not (feedback is ABSENT or feedback is None or isinstance(feedback, str)),
        "/more": more is not ABSENT,
    }
    assert {issue.path for issue in issues} == {path for path, is_wrong in wrong.items() if is_wrong}
