"""Pause, resume, fork, cancel, answer and export, from the page of a Run."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.urls import reverse

from apps.console import asking
from apps.console.operations import identity_in, number_in, submit
from apps.console.page import page, require
from apps.console.pages.asked import answer_in_words
from apps.console.pages.run import Refused, show
from apps.console.permissions import Operator, Permission
from apps.console.sentences import clock_text, for_people
from apps.core.endpoints import Endpoint
from apps.core.errors import ErrorCode, LoomError, invalid_request
from apps.mirrors.contracts import MirrorExported
from apps.mirrors.endpoints import EXPORT
from apps.runs import endpoints
from apps.runs.contracts import OperationResult
from apps.runs.selectors.details import RunDetail, action_of_run, run_detail


@dataclass(frozen=True, slots=True)
class Verb:
    """What a button does: the permission it needs, its Endpoint, what the form adds, and what is said after it."""

    permission: Permission
    endpoint: Endpoint[Any, Any]
    arguments: Callable[[QueryDict, RunDetail], dict[str, Any]]
    told: Callable[[OperationResult], str]


def _nothing(form: QueryDict, detail: RunDetail) -> dict[str, Any]:
    return {}


def _expected(form: QueryDict, detail: RunDetail) -> dict[str, Any]:
    return {"expectedRevision": number_in(form, "expectedRevision")}


def _one_step(form: QueryDict, detail: RunDetail) -> dict[str, Any]:
    return {**_expected(form, detail), "steps": 1}


def _way(form: QueryDict, detail: RunDetail) -> dict[str, Any]:
    """How a Run goes on whose Artifacts or State changed while it was paused (M8)."""
    way = form.get("way", "")
    return {**_expected(form, detail), **({"abandonMirror": True} if way == "abandon" else {"scope": way})}


def _boundary(form: QueryDict, detail: RunDetail) -> dict[str, Any]:
    return {"boundary": number_in(form, "boundary")}


def _answer(form: QueryDict, detail: RunDetail) -> dict[str, Any]:
    action_id = form.get("actionId", "")
    asked = action_of_run(run_id=uuid.UUID(detail.view.run_id), action_id=action_id)
    if asked is None:
        return {"actionId": action_id, "answer": None}
    answer, issues = asking.answer_of(asked.kind, asked.request, _texts(form))
    if issues and asked.answered_at is None:
        raise invalid_request("Answer", issues)
    return {"actionId": action_id, "answer": answer}


def _texts(form: QueryDict) -> dict[str, str]:
    """What was filled in, each field's last value."""
    return {name: str(text) for name, text in form.items()}


def _paused(result: OperationResult) -> str:
    if result.receipt.effect == "none":
        return "Nothing to do: it is paused, or will be, already."
    if result.run is not None and result.run.status == "paused":
        return "Paused."
    # The page says so for as long as it is so, and no longer.
    return ""


def _cancelled(result: OperationResult) -> str:
    return "Nothing to do: it had ended already." if result.receipt.effect == "none" else "Cancelled."


ONE_STEP = "Resumed for one Step; then it rests again, unless that Step ends it."
VERBS = {
    "pause": Verb(Permission.PAUSE, endpoints.PAUSE_RUN, _nothing, _paused),
    "resume": Verb(Permission.RESUME, endpoints.RESUME_RUN, _expected, lambda _: "Resumed."),
    "resume-step": Verb(
        Permission.RESUME,
        endpoints.RESUME_RUN,
        _one_step,
        lambda _: ONE_STEP,
    ),
    "resume-anyway": Verb(Permission.RESUME, endpoints.RESUME_RUN, _way, lambda _: "Resumed."),
    "fork": Verb(
        Permission.FORK,
        endpoints.FORK_RUN,
        _boundary,
        lambda _: "Forked. This is the fork: it rests until it is resumed, and the Run it came from stays as it is.",
    ),
    "cancel": Verb(Permission.CANCEL, endpoints.CANCEL_RUN, _nothing, _cancelled),
    "answer": Verb(Permission.ANSWER, endpoints.ANSWER_ASK, _answer, lambda _: "Answered. The Run goes on."),
}


@page(Permission.SEE, methods=("POST",), otherwise="admin:console_run")
def steer(request: HttpRequest, operator: Operator, run_id: uuid.UUID, verb: str) -> HttpResponse:
    """Do it and go back to the Run; what is refused is told on its page, with what had been filled in."""
    detail = run_detail(project_ids=list(operator.projects), run_id=run_id)
    asked = VERBS[verb]
    require(operator, asked.permission, detail.project_id)
    try:
        arguments = asked.arguments(request.POST, detail)
        identity = identity_in(request.POST)
        result = submit(asked.endpoint, operator, detail.project_id, identity, runId=str(run_id), **arguments)
    except LoomError as error:
        # What became of the Run meanwhile is shown, not what stood there before.
        present = run_detail(project_ids=list(operator.projects), run_id=run_id)
        return show(request, operator, present, _refused(error, request.POST, run_id))
    if told := asked.told(result):
        messages.success(request, told)
    # The Run that it came to: a fork's is another one.
    return HttpResponseRedirect(reverse("admin:console_run", args=[result.receipt.run_id or run_id]))


@page(Permission.SEE, methods=("POST",), otherwise="admin:console_run", long=True)
def export(request: HttpRequest, operator: Operator, run_id: uuid.UUID) -> HttpResponse:
    """Mirror the newest Run of the trace into its own Project; the same content again is the same Mirror (M3)."""
    detail = run_detail(project_ids=list(operator.projects), run_id=run_id)
    require(operator, Permission.EXPORT, detail.project_id)
    arguments = {"traceId": detail.view.trace_id, "targetProject": detail.view.project}
    try:
        made: MirrorExported = EXPORT.call(operator.caller(detail.project_id), arguments)
    except LoomError as error:
        return show(request, operator, detail, Refused(error.message, {}))
    messages.success(request, f"Mirror {made.mirror.mirror_id} holds the trace up to boundary {made.mirror.boundary}.")
    return HttpResponseRedirect(f"{reverse('admin:console_run', args=[run_id])}?tab=mirrors#tabs")


def _refused(error: LoomError, form: QueryDict, run_id: uuid.UUID) -> Refused:
    message = for_people(error.message)
    if error.details and "answeredBy" in error.details:
        message = _answered_before(form, run_id) or message
    elif error.code is ErrorCode.INVALID_REQUEST and any(i.path.startswith("/answer") for i in error.issues):
        message = "Nothing was sent yet: see what is missing in the form."
    differences = ()
    if error.code is ErrorCode.MIRROR_DIVERGED and error.details:
        message = "Not resumed: what this Run depends on has changed since it was paused. Choose how it goes on."
        differences = error.details["differences"]
    status = 400 if error.code is ErrorCode.INVALID_REQUEST else 409
    return Refused(message, _texts(form), tuple(error.issues), differences, status)


def _answered_before(form: QueryDict, run_id: uuid.UUID) -> str:
    """Who was first, when, and what they said."""
    action = action_of_run(run_id=run_id, action_id=form.get("actionId", ""))
    if action is None or action.answered_by is None or action.answered_at is None:
        return ""
    who = f"{action.answered_by['principal']} ({action.answered_by['via']})"
    return (
        f"Not sent: this question was answered already, by {who} at {clock_text(action.answered_at)}. "
        f"The answer was: {answer_in_words(action)}"
    )
