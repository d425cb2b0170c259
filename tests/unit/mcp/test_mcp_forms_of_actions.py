"""An Action as a flat form and back (H1, H2, H4, H5)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp_types.methods import SERVER_REQUESTS

from apps.looms.domain.answers import check_answers, check_confirmation
from apps.mcp import elicitation, forms
from apps.mcp.elicitation import Ask

OPTIONS = [{"id": "r", "label": "Red", "description": "like a rose"}, {"id": "b", "label": "Blue"}]
COLOUR = {"id": "colour", "question": "Which colour?", "isSkippable": False, "options": OPTIONS}
SIZE = {"id": "size", "question": "Which size?", "isSkippable": True, "options": OPTIONS}
NAME = {"id": "name", "question": "Which name?", "description": "As it is spoken.", "isSkippable": False}
NOTE = {"id": "note", "question": "Anything else?", "isSkippable": True}
ALL = [COLOUR, SIZE, NAME, NOTE]


def said(question: dict[str, Any], **content: Any) -> Any:
    """The one answer, or what the human is told."""
    try:
        return forms.answer_of("questions", [question], content)[0]
    except forms.NotAnAnswer as told:
        return str(told)


def answered(question: dict[str, Any], text: str) -> dict[str, Any]:
    return {"questionId": question["id"], "isSkipped": False, "answer": text}


def skipped(question: dict[str, Any]) -> dict[str, Any]:
    return {"questionId": question["id"], "isSkipped": True}


@pytest.mark.rule("H1", "H5")
@pytest.mark.parametrize(
    ("question", "content", "answer"),
    [
        (COLOUR, {"answer1": "r"}, answered(COLOUR, "r")),
        (COLOUR, {"answer1InOwnWords": " Green! "}, answered(COLOUR, " Green! ")),
        (COLOUR, {"answer1": "r", "answer1InOwnWords": "  "}, answered(COLOUR, "r")),
        (COLOUR, {"answer1": "", "answer1InOwnWords": "r"}, answered(COLOUR, "r")),
        (SIZE, {}, skipped(SIZE)),
        (SIZE, {"skip1": True}, skipped(SIZE)),
        (SIZE, {"skip1": True, "answer1": "r"}, skipped(SIZE)),
        (SIZE, {"skip1": False, "answer1": "b"}, answered(SIZE, "b")),
        (NAME, {"answer1": "Ada"}, answered(NAME, "Ada")),
        (NAME, {"answer1": "skip", "skip1": True}, answered(NAME, "skip")),
        (NOTE, {"answer1": " "}, skipped(NOTE)),
        (NOTE, {"answer1": "no", "other": "member"}, answered(NOTE, "no")),
    ],
)
def test_what_was_filled_in_becomes_the_answer(question: Any, content: Any, answer: Any) -> None:
    assert said(question, **content) == answer
    assert check_answers([question], [answer]) == []


@pytest.mark.rule("H4")
@pytest.mark.parametrize(
    ("question", "content", "told"),
    [
        (COLOUR, {}, "“Which colour?”: this one needs an answer."),
        (COLOUR, {"answer1": " "}, "“Which colour?”: this one needs an answer."),
        (COLOUR, {"answer1": ["r"]}, "“Which colour?”: this one needs an answer."),
        (COLOUR, {"skip1": True}, "“Which colour?”: this one needs an answer."),
        (COLOUR, {"answer1": "Red"}, "“Which colour?”: please choose one of the options, or use your own words."),
        (
            COLOUR,
            {"answer1": "r", "answer1InOwnWords": "Green"},
            "“Which colour?”: please choose an option or use your own words, not both.",
        ),
        (SIZE, {"skip1": True, "answer1InOwnWords": "XL"}, "“Which size?”: please answer it or skip it, not both."),
        (NOTE, {"skip1": True, "answer1": "yes"}, "“Anything else?”: please answer it or skip it, not both."),
        (NAME, {"answer1": 7}, "“Which name?”: this one needs an answer."),
    ],
)
def test_what_is_no_answer_is_told_and_never_guessed(question: Any, content: Any, told: str) -> None:
    assert said(question, **content) == told


@pytest.mark.rule("H2", "H4")
def test_a_confirmation_takes_a_yes_or_no_and_words() -> None:
    def confirmed(**content: Any) -> Any:
        return forms.answer_of("confirmation", {"context": "Go on?"}, content)

    assert confirmed(isConfirmed=False) == {"isConfirmed": False}
    assert confirmed(isConfirmed=True, feedback=" but ") == {"isConfirmed": True, "feedback": " but "}
    assert confirmed(isConfirmed=True, feedback=" ") == {"isConfirmed": True}
    for poor in ({}, {"isConfirmed": "true"}, {"isConfirmed": None}, {"isConfirmed": 1}):
        with pytest.raises(forms.NotAnAnswer):
            confirmed(**poor)


@pytest.mark.rule("H4")
def test_the_form_shows_all_there_is_to_know_and_demands_only_what_has_one_field() -> None:
    form = forms.form_of("questions", ALL, heading="loomsvc · paint", hint="Not yet.")
    assert form.message.startswith("loomsvc · paint\n\nNot yet.\n\n1. Which colour?\n\n2. ")
    assert "As it is spoken." in form.message
    assert form.required == ("answer3",)
    assert form.fields["answer1"]["oneOf"][0] == {"const": "r", "title": "Red: like a rose"}
    assert list(form.fields) == [
        *("answer1", "answer1InOwnWords", "answer2", "answer2InOwnWords", "skip2", "answer3", "answer4", "skip4")
    ]
    assert forms.form_of("questions", [NAME]).message == "Which name?\nAs it is spoken."
    assert forms.form_of("confirmation", {"context": "Go **on**?"}).message == "Go **on**?"


@pytest.mark.rule("H4", "N5")
@pytest.mark.parametrize("version", ["2025-06-18", "2025-11-25"])
@pytest.mark.parametrize(("kind", "request_"), [("questions", ALL), ("confirmation", {"context": "Go on?"})])
def test_every_form_is_what_the_revision_allows(version: str, kind: str, request_: Any) -> None:
    form = forms.form_of(kind, request_)
    request = elicitation.request_of(Ask("key", form.message, form.fields, form.required), version)
    SERVER_REQUESTS["elicitation/create", version].model_validate({"jsonrpc": "2.0", "id": 1, **request})
    schema = request["params"]["requestedSchema"]
    assert set(schema.get("required", ())) <= set(schema["properties"])
    flat = {"type", "title", "description", "minLength", "default", "oneOf", "enum", "enumNames"}
    for shape in schema["properties"].values():
        assert shape["type"] in ("string", "boolean")
        assert set(shape) <= flat


FIELDS = [f"{field}{number}" for number in range(1, 5) for field in ("answer", "skip")]
NAMES = st.sampled_from([*FIELDS, "answer1InOwnWords", "answer2InOwnWords"])
VALUES = st.sampled_from(["r", "b", "", " ", "Red", "my own"]) | st.booleans() | st.none() | st.integers()


@pytest.mark.rule("H1", "H4")
@given(content=st.dictionaries(NAMES, VALUES))
def test_whatever_is_filled_in_is_a_valid_answer_or_asked_again(content: dict[str, Any]) -> None:
    try:
        answer = forms.answer_of("questions", ALL, content)
    except forms.NotAnAnswer:
        return
    assert check_answers(ALL, answer) == []


@pytest.mark.rule("H2", "H4")
@given(content=st.dictionaries(st.sampled_from(["isConfirmed", "feedback", "x"]), VALUES))
def test_whatever_is_filled_in_confirms_refuses_or_is_asked_again(content: dict[str, Any]) -> None:
    try:
        answer = forms.answer_of("confirmation", {"context": "Go on?"}, content)
    except forms.NotAnAnswer:
        return
    assert check_confirmation(answer) == []
