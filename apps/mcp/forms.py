"""An Action as a flat form, and what was filled in as its answer (H1, H2, H4, H5).

Forms of MCP know texts, choices and ticks, one beside the other.  A question is therefore up to
three fields: its options, the human's own words, and a tick to skip it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Fields = dict[str, dict[str, Any]]
Request = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Form:
    """What is shown: a text and fields, of which those in ``required`` must be filled in."""

    message: str
    fields: Fields
    required: tuple[str, ...]


class NotAnAnswer(Exception):
    """What was filled in is no answer yet; the message tells the human what to do."""


def form_of(kind: str, request: Any, *, heading: str | None = None, hint: str | None = None) -> Form:
    """The form for an Action; ``hint`` says what was wrong with the last try."""
    form = _confirmation(request) if kind == "confirmation" else _questions(request)
    parts = [part for part in (heading, hint, form.message) if part]
    return Form("\n\n".join(parts), form.fields, form.required)


def answer_of(kind: str, request: Any, content: Mapping[str, Any]) -> Any:
    """The answer in its wire form; raises :class:`NotAnAnswer`."""
    if kind == "confirmation":
        return _confirmed(content)
    return [_answer(number, question, content) for number, question in enumerate(request, 1)]


def _confirmation(request: Mapping[str, Any]) -> Form:
    fields: Fields = {
        "isConfirmed": {"type": "boolean", "title": "Confirm", "description": "Yes, or no."},
        "feedback": {"type": "string", "title": "Feedback", "description": "If you want to say more."},
    }
    return Form(request["context"], fields, ("isConfirmed",))


def _confirmed(content: Mapping[str, Any]) -> dict[str, Any]:
    confirmed = content.get("isConfirmed")
    if not isinstance(confirmed, bool):
        raise NotAnAnswer("Please say yes or no.")
    feedback = _words(content, "feedback")
    return {"isConfirmed": confirmed, **({"feedback": feedback} if feedback else {})}


def _questions(request: Request) -> Form:
    texts = [_in_full(question) for question in request]
    numbered = [f"{number}. {text}" for number, text in enumerate(texts, 1)] if len(texts) > 1 else texts
    fields: Fields = {}
    for number, question in enumerate(request, 1):
        fields.update(_fields(number, question))
    must = (_choice(n) for n, question in enumerate(request, 1) if _needs_words(question))
    return Form("\n\n".join(numbered), fields, tuple(must))


def _in_full(question: Mapping[str, Any]) -> str:
    return "\n".join(part for part in (question["question"], question.get("description")) if part)


def _choice(number: int) -> str:
    return f"answer{number}"


def _own(number: int) -> str:
    return f"answer{number}InOwnWords"


def _skip(number: int) -> str:
    return f"skip{number}"


def _needs_words(question: Mapping[str, Any]) -> bool:
    return not question.get("options") and not question["isSkippable"]


def _fields(number: int, question: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    described = {"description": question["description"]} if question.get("description") else {}
    shown = {"type": "string", "title": question["question"], **described}
    if question.get("options"):
        yield _choice(number), {**shown, "oneOf": [_option(option) for option in question["options"]]}
        yield _own(number), {"type": "string", "title": "Or in your own words"}
    else:
        yield _choice(number), {**shown, **({"minLength": 1} if _needs_words(question) else {})}
    if question["isSkippable"]:
        yield _skip(number), {"type": "boolean", "title": "Skip this question", "default": False}


def _option(option: Mapping[str, Any]) -> dict[str, str]:
    more = f": {option['description']}" if option.get("description") else ""
    return {"const": option["id"], "title": option["label"] + more}


def _answer(number: int, question: Mapping[str, Any], content: Mapping[str, Any]) -> dict[str, Any]:
    """Never guesses: what says two things at once is asked again."""
    options = {option["id"] for option in question.get("options") or ()}
    chosen = _words(content, _choice(number))
    own = _words(content, _own(number)) if options else None
    if options and chosen is not None and chosen not in options:
        raise NotAnAnswer(f"{_named(question)}: please choose one of the options, or use your own words.")
    if question["isSkippable"] and content.get(_skip(number)) is True:
        # A choice may be what the form came with; words were written.
        if own or (chosen and not options):
            raise NotAnAnswer(f"{_named(question)}: please answer it or skip it, not both.")
        return {"questionId": question["id"], "isSkipped": True}
    if chosen and own:
        raise NotAnAnswer(f"{_named(question)}: please choose an option or use your own words, not both.")
    if not chosen and not own:
        if question["isSkippable"]:
            return {"questionId": question["id"], "isSkipped": True}
        raise NotAnAnswer(f"{_named(question)}: this one needs an answer.")
    return {"questionId": question["id"], "isSkipped": False, "answer": chosen or own}


def _words(content: Mapping[str, Any], name: str) -> str | None:
    """A text as it was given; ``None`` where nothing but blanks stands."""
    text = content.get(name)
    return text if isinstance(text, str) and text.strip() else None


def _named(question: Mapping[str, Any]) -> str:
    return f"“{question['question']}”"
