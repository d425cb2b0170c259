"""A form about an Action, and the answer that it comes to (H1, H2)."""

from __future__ import annotations

from typing import Any

import pytest

from apps.console.asking import answer_of, draft_of, fields_of, in_words
from apps.core.errors import Issue
from apps.looms.domain.answers import check_answers, check_confirmation

OPTIONS = [{"id": "a", "label": "A"}, {"id": "b", "label": "B"}]
ASKED: list[dict[str, Any]] = [
    {"id": "one", "question": "Which?", "isSkippable": False, "options": OPTIONS},
    {"id": "two", "question": "Why?", "isSkippable": True},
]


@pytest.mark.rule("H1")
@pytest.mark.parametrize(
    ("given", "answers", "wrong"),
    [
        ({"choice0": "a", "own1": "so"}, ["a", "so"], []),
        ({"own0": "another"}, ["another", ...], ["/1/answer"]),
        ({"own0": " padded ", "skip1": "yes"}, ["padded", None], []),
        ({"skip0": "yes", "skip1": "yes"}, [None, None], ["/0/isSkipped"]),
        ({"choice0": "a", "own0": "b", "skip1": "yes"}, ["b", None], []),
        ({"choice0": "a", "skip1": "yes", "own1": "so"}, ["a", "so"], []),
        ({}, [..., ...], ["/0/answer", "/1/answer"]),
    ],
)
def test_questions_come_to_one_entry_each(given: dict[str, str], answers: list[Any], wrong: list[str]) -> None:
    answer, issues = answer_of("questions", ASKED, given)
    assert [entry["questionId"] for entry in answer] == ["one", "two"]
    assert [None if entry["isSkipped"] else entry.get("answer", ...) for entry in answer] == answers
    assert [issue.path for issue in check_answers(ASKED, answer)] == wrong
    both = [number for number in (0, 1) if given.get(f"choice{number}") and given.get(f"own{number}")]
    both += [number for number in (0, 1) if given.get(f"skip{number}") and given.get(f"own{number}")]
    assert [issue.path for issue in issues] == [f"/answer/{number}" for number in both]


@pytest.mark.rule("H2")
@pytest.mark.parametrize(
    ("given", "answer", "is_whole"),
    [
        ({"confirmed": "yes"}, {"isConfirmed": True}, True),
        ({"confirmed": "no", "feedback": " later "}, {"isConfirmed": False, "feedback": "later"}, True),
        ({"feedback": "hm"}, {"feedback": "hm"}, False),
        ({"confirmed": "true"}, {}, False),
    ],
)
def test_a_confirmation_says_yes_or_no(given: dict[str, str], answer: dict[str, Any], is_whole: bool) -> None:
    assert answer_of("confirmation", {"context": "?"}, given) == (answer, [])
    assert (check_confirmation(answer) == []) is is_whole


def test_what_was_filled_in_and_what_is_wrong_stand_at_their_question() -> None:
    issues = [Issue("required", "/answer/0/answer", "x"), Issue("type", "/answer/11/answer", "far away")]
    one, two = fields_of(ASKED, {"own1": "so", "skip1": "yes"}, issues)
    assert (one.error, two.error) == ("This one needs an answer.", "")
    _, left = fields_of(ASKED, {}, [Issue("required", "/answer/1/answer", "x")])
    assert left.error == "Answer this one, or tick that you skip it."
    assert (two.own, two.is_skipped, one.is_skipped) == ("so", True, False)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ([{"isSkipped": True}, {"isSkipped": False, "answer": "a\n b"}], "skipped; a b"),
        ({"isConfirmed": True}, "yes"),
        ({"isConfirmed": False, "feedback": "later"}, "no; later"),
        ([{"isSkipped": False, "answer": "x" * 300}], "x" * 199 + "…"),
    ],
)
def test_an_answer_in_words(answer: Any, words: str) -> None:
    assert in_words(answer) == words


def test_an_answer_to_several_questions_names_them_and_the_options_by_their_labels() -> None:
    answer = [{"questionId": "one", "isSkipped": False, "answer": "a"}, {"questionId": "two", "isSkipped": True}]
    assert in_words(answer, ASKED) == "Which? A; Why? skipped"
    assert in_words(answer[:1], ASKED[:1]) == "A"


def test_a_draft_is_what_was_filled_in() -> None:
    assert draft_of("questions", ASKED, {"choice0": "b", "own0": " so ", "skip1": "yes"}) == [
        ("Which?", "B\nso"),
        ("Why?", "skipped"),
    ]
    assert draft_of("questions", ASKED, {}) == []
    assert draft_of("confirmation", {}, {"confirmed": "no", "feedback": "hm"}) == [
        ("Your decision", "No"),
        ("Anything to say to it", "hm"),
    ]
