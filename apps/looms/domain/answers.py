"""Whether an answer fits what was asked (H1, H2, H3)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from apps.core import json_text
from apps.core.errors import Issue
from apps.core.json_text import pointer

_MEMBERS = {"questionId", "isSkipped", "answer"}


def in_wire_form(kind: str, given: Any) -> Any:
    """An answer that may be given in short: a confirmation as a bool, a question list's as ``{id: text or None}``."""
    if kind == "confirmation":
        return {"isConfirmed": given} if isinstance(given, bool) else given
    if not isinstance(given, dict):
        return given
    return [
        {"questionId": name, "isSkipped": True}
        if text is None
        else {"questionId": name, "isSkipped": False, "answer": text}
        for name, text in given.items()
    ]


def check_answers(request: list[dict[str, Any]], answer: Any) -> list[Issue]:
    """Issues of a question list's answer; pointers are relative to it.

    Each question is answered exactly once and none that was not asked; skipped only where allowed
    and then without ``answer``; else ``answer`` is one nonblank text.
    """
    issues = json_text.find_issues(answer)
    if issues:
        return issues
    if not isinstance(answer, list):
        return [Issue("type", "", "Send a list with one entry for each question.")]
    return list(_list_issues({question["id"]: question for question in request}, answer))


def _list_issues(asked: dict[str, dict[str, Any]], answer: list[Any]) -> Iterator[Issue]:
    seen: set[str] = set()
    for index, entry in enumerate(answer):
        if not isinstance(entry, dict):
            yield Issue("type", pointer([index]), "Send an object {questionId, isSkipped, answer?}.")
            continue
        yield from _members(index, entry)
        identifier = entry.get("questionId")
        if not isinstance(identifier, str):
            continue
        if identifier not in asked:
            yield Issue("unknown_question", pointer([index, "questionId"]), f"Answer one of: {', '.join(asked)}.")
        elif identifier in seen:
            yield Issue("duplicate", pointer([index, "questionId"]), "Answer each question once.")
        else:
            yield from _content(index, entry, asked[identifier])
        seen.add(identifier)
    for identifier in asked:
        if identifier not in seen:
            yield Issue("required", "", f"Answer the question `{identifier}` too.")


def _members(index: int, entry: dict[str, Any]) -> Iterator[Issue]:
    for name in sorted(entry.keys() - _MEMBERS):
        yield Issue("unknown_member", pointer([index, name]), f"Remove `{name}`; it is not a member of this shape.")
    for name, kind, what in (("questionId", str, "a text"), ("isSkipped", bool, "true or false")):
        if name not in entry:
            yield Issue("required", pointer([index, name]), f"Add the required `{name}` member.")
        elif type(entry[name]) is not kind:
            yield Issue("type", pointer([index, name]), f"Send {what}.")


def _content(index: int, entry: dict[str, Any], question: dict[str, Any]) -> Iterator[Issue]:
    place = pointer([index, "answer"])
    given = entry.get("answer")
    if entry.get("isSkipped") is True:
        if not question["isSkippable"]:
            yield Issue("not_skippable", pointer([index, "isSkipped"]), "This question must be answered.")
        elif given is not None:
            yield Issue("unknown_member", place, "Leave `answer` out when the question is skipped.")
    elif given is None:
        yield Issue("required", place, "Add the required `answer` member.")
    elif not isinstance(given, str) or not given.strip():
        yield Issue("type", place, "Send one nonblank text, or an option's id.")


def check_confirmation(answer: Any) -> list[Issue]:
    """Issues of a confirmation's answer ``{isConfirmed, feedback?}``."""
    issues = json_text.find_issues(answer)
    if issues:
        return issues
    if not isinstance(answer, dict):
        return [Issue("type", "", "Send an object {isConfirmed, feedback?}.")]
    for name in sorted(answer.keys() - {"isConfirmed", "feedback"}):
        issues.append(Issue("unknown_member", pointer([name]), f"Remove `{name}`; it is not a member of this shape."))
    if "isConfirmed" not in answer:
        issues.append(Issue("required", "/isConfirmed", "Add the required `isConfirmed` member."))
    elif type(answer["isConfirmed"]) is not bool:
        issues.append(Issue("type", "/isConfirmed", "Send true or false."))
    if not isinstance(answer.get("feedback"), str | None):
        issues.append(Issue("type", "/feedback", "Send a text, or leave it out."))
    return issues
