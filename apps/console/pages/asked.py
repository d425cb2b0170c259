"""What a Run asks a person, as a form; and what becomes of a form that was begun before somebody else answered."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from django.http import HttpRequest

from apps.console import asking
from apps.core.errors import Issue
from apps.runs.selectors.details import ActionEntry, RunDetail, action_of_run

#: The page names the Actions whose forms somebody has begun to fill in, with commas, when it asks for news.
HELD = "X-Held"
#: As many begun forms of one page are told about.
MOST_HELD = 5


def asked_form(detail: RunDetail, given: Mapping[str, str], issues: Sequence[Issue]) -> dict[str, Any] | None:
    """The pending question; filled in as it was when it was refused, if what was refused was about this one."""
    action = detail.view.pending_action
    if action is None:
        return None
    if given.get("actionId") != action.id:
        given, issues = {}, ()
    if action.kind == "confirmation":
        wrong = " ".join(issue.suggestion for issue in issues if issue.path != "/answer/isConfirmed")
        if any(issue.path == "/answer/isConfirmed" for issue in issues):
            wrong = "Say yes or no."
        return {"context": action.request["context"], "given": given, "error": wrong}
    return {"fields": asking.fields_of(action.request, given, issues), "given": given}


def held_forms(request: HttpRequest, detail: RunDetail) -> list[dict[str, Any]]:
    """Of the begun forms that the page names, those whose question is not open any more, with what became of it."""
    pending = detail.view.pending_action
    named = dict.fromkeys(request.headers.get(HELD, "").split(",")[:MOST_HELD])
    found = []
    for action_id in named:
        if action_id and (pending is None or pending.id != action_id):
            action = action_of_run(run_id=uuid.UUID(detail.view.run_id), action_id=action_id)
            if action is not None:
                found.append({"action": action, "answer": answer_in_words(action)})
    return found


def draft(detail: RunDetail, given: Mapping[str, str]) -> list[tuple[str, str]]:
    """What a refused form held about a question that is not open any more, to be copied."""
    pending, action_id = detail.view.pending_action, given.get("actionId", "")
    if not action_id or (pending is not None and pending.id == action_id):
        return []
    action = action_of_run(run_id=uuid.UUID(detail.view.run_id), action_id=action_id)
    return [] if action is None else asking.draft_of(action.kind, action.request, given)


def answer_in_words(action: ActionEntry) -> str:
    """What was answered, on one line; nothing while nobody has."""
    if action.answered_at is None:
        return ""
    return asking.in_words(action.answer, action.request if action.kind != "confirmation" else ())
