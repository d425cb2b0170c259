"""Waits: what a Code Step returns to be woken again by its continuation (H1, H2, H7)."""

from __future__ import annotations

import datetime as dt
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from apps.looms.authoring.human import Option, Question
from apps.looms.authoring.refusals import ResultInvalid
from apps.looms.authoring.values import Bounds

MAX_QUESTIONS = 100


class Wait:
    """Made by ``ask``, ``confirm`` and ``sleep_until``; a Step returns it."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Ask(Wait):
    """``request`` is the wire form of H1; ``then`` is ``module:function``."""

    request: list[dict[str, Any]]
    then: str
    only_person: bool


@dataclass(frozen=True, slots=True)
class Confirm(Wait):
    """``context`` is Markdown."""

    context: str
    then: str
    only_person: bool


@dataclass(frozen=True, slots=True)
class Sleep(Wait):
    """``until`` is aware, UTC."""

    until: dt.datetime
    then: str


def reference_to(function: Callable[..., Any], package: str) -> str:
    """``module:function`` of a continuation; it must be a module-level function of the package."""
    module = getattr(function, "__module__", None)
    name = getattr(function, "__name__", None)
    if (
        isinstance(module, str)
        and isinstance(name, str)
        and module.startswith(package + ".")
        and getattr(sys.modules.get(module), name, None) is function
    ):
        return f"{module.removeprefix(package + '.')}:{name}"
    shown = getattr(function, "__qualname__", type(function).__name__)
    raise ResultInvalid(f"`then` must be a module-level function of this Loom; {shown} is none.")


def _text(value: Any, what: str) -> str:
    if type(value) is not str or not value.strip():
        raise ResultInvalid(f"{what} must be a nonblank text.")
    return value


def _optional_text(value: Any, what: str) -> dict[str, str]:
    return {} if value is None else {"description": _text(value, what)}


def _option(option: Any, bounds: Bounds) -> dict[str, Any]:
    if not isinstance(option, Option):
        raise ResultInvalid(f"options must be Option objects, not {type(option).__name__}.")
    return {
        "id": bounds.id(option.id, "An Option's id"),
        "label": _text(option.label, "An Option's label"),
        **_optional_text(option.description, "An Option's description"),
    }


def _question(question: Any, bounds: Bounds) -> dict[str, Any]:
    if not isinstance(question, Question):
        raise ResultInvalid(f"ask takes Question objects, not {type(question).__name__}.")
    if type(question.is_skippable) is not bool:
        raise ResultInvalid("is_skippable must be True or False.")
    options = [_option(option, bounds) for option in question.options]
    _unique([option["id"] for option in options], f"options of question {question.id}")
    return {
        "id": bounds.id(question.id, "A Question's id"),
        "question": _text(question.question, "A Question's text"),
        **_optional_text(question.description, "A Question's description"),
        **({"options": options} if options else {}),
        "isSkippable": question.is_skippable,
    }


def _unique(ids: list[str], what: str) -> None:
    doubled = sorted({one for one in ids if ids.count(one) > 1})
    if doubled:
        raise ResultInvalid(f"The ids of {what} must differ; {doubled[0]!r} comes twice.")


def _flag(value: Any) -> bool:
    if type(value) is not bool:
        raise ResultInvalid("only_person must be True or False.")
    return value


def ask(questions: Iterable[Question], *, then: str, only_person: bool, bounds: Bounds) -> Ask:
    """Raises :class:`ResultInvalid` for questions that could not be shown or answered."""
    if isinstance(questions, (str, bytes, Question)):
        raise ResultInvalid("ask takes a list of Question objects.")
    listed = list(questions)
    if not 1 <= len(listed) <= MAX_QUESTIONS:
        raise ResultInvalid(f"ask takes 1 to {MAX_QUESTIONS} questions, not {len(listed)}.")
    request = [_question(question, bounds) for question in listed]
    _unique([question["id"] for question in request], "questions asked together")
    return Ask(bounds.json(request, "The question list"), then, _flag(only_person))


def confirm(context: str, *, then: str, only_person: bool, bounds: Bounds) -> Confirm:
    """Raises :class:`ResultInvalid` for a blank or unstorable context."""
    text = _text(context, "The context of a confirmation")
    return Confirm(bounds.json(text, "The context of a confirmation"), then, _flag(only_person))


def sleep(when: dt.datetime, *, then: str) -> Sleep:
    """Raises :class:`ResultInvalid` for a time without a time zone."""
    if not isinstance(when, dt.datetime) or when.utcoffset() is None:
        raise ResultInvalid("sleep_until takes a datetime with a time zone, such as step.now() + timedelta(hours=1).")
    try:
        return Sleep(when.astimezone(dt.UTC), then)
    except OverflowError:
        raise ResultInvalid("sleep_until takes a time between the years 1 and 9999, UTC.") from None
