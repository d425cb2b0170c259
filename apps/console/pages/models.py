"""Models: which one each agent, each role and the default gets in a Project, why, and another one chosen (R15)."""

from __future__ import annotations

import uuid
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.contrib.admin.models import ADDITION, CHANGE, DELETION
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from apps.agent_sessions.domain.model_choices import Subject, SubjectKind
from apps.agent_sessions.services.model_choices import (
    Assignment,
    choose_model,
    forget_model_choice,
    list_assignments,
)
from apps.agent_sessions.services.models import known_models
from apps.console.page import page, render, require
from apps.console.pages.choosing import Choice, choices, choices_named, typed
from apps.console.permissions import Operator, Permission
from apps.console.record import record_model_choice
from apps.core import clock
from apps.core.errors import LoomError
from apps.looms.services.catalog import loadable


@page(Permission.MODELS)
def models(request: HttpRequest, operator: Operator) -> HttpResponse:
    """What the agents and roles of the loaded Looms get in one Project (``?project=``)."""
    named = typed(request.GET, "project")
    if named:
        return _page(request, operator, _project(operator, named))
    first = next(iter(operator.where(Permission.MODELS)), None)
    if first is None:
        raise Http404
    return _page(request, operator, first)


@page(Permission.MODELS, methods=("POST",), otherwise="admin:console_models")
def choose(request: HttpRequest, operator: Operator) -> HttpResponse:
    """Choose a model for one of the rows; without a model, go back to what the setting says."""
    project_id = _project(operator, request.POST.get("project", ""))
    project, model = operator.projects[project_id], request.POST.get("model", "")
    try:
        subject = _listed(project_id, request.POST.get("kind", ""), request.POST.get("name", ""))
    except LoomError as error:
        return _page(request, operator, project_id, f"Nothing was changed. {error.message}")
    if subject is None:
        return _page(request, operator, project_id, "Nothing was changed: choose for one of the rows of this page.")
    try:
        with transaction.atomic():
            said = _carry_out(request, operator, project_id, subject, model)
    except LoomError as error:
        reason = error.issues[0].suggestion if error.issues else error.message
        return _page(request, operator, project_id, f"Nothing was changed. {reason}")
    messages.success(request, said)
    return redirect(f"{reverse('admin:console_models')}?{urlencode({'project': project})}")


def _carry_out(request: HttpRequest, operator: Operator, project_id: uuid.UUID, subject: Subject, model: str) -> str:
    """The change and its record; returns what is said of it."""
    project = operator.projects[project_id]
    if model:
        before = choose_model(project_id=project_id, subject=subject, model=model, by=operator.name, now=clock.now())
        flag = ADDITION if before is None else CHANGE
        said = f"{subject} gets {model} in Project {project}"
    else:
        before = forget_model_choice(project_id=project_id, subject=subject)
        flag = DELETION
        said = f"{subject} has no choice of its own any more in Project {project}"
    if before == (model or None):
        return f"Nothing was changed: {subject} had that already in Project {project}."
    after = f"; before: {before}" if before else ""
    record_model_choice(user=request.user, project=project, subject=str(subject), flag=flag, said=f"{said}{after}")
    return f"{said[0].upper()}{said[1:]}, from the next Step on."


def _project(operator: Operator, name: str) -> uuid.UUID:
    found = operator.project_named(name)
    if found is None:
        raise Http404
    require(operator, Permission.MODELS, found)
    return found


def _listed(project_id: uuid.UUID, kind: str, name: str) -> Subject | None:
    """The row that a form is for; ``None`` for what no page lists."""
    return next(
        (each.subject for each in _rows(project_id) if (each.subject.kind, each.subject.name) == (kind, name)), None
    )


def _rows(project_id: uuid.UUID) -> list[Assignment]:
    return list_assignments(project_id=project_id, graphs=[loom.graph for loom in loadable()])


def _page(request: HttpRequest, operator: Operator, project_id: uuid.UUID, refused: str = "") -> HttpResponse:
    project, problem, rows = operator.projects[project_id], "", []
    try:
        known = known_models()
        titles = {model.id: f"{model.display_name} ({model.id})" for model in known.models.values()}
        rows = [_row(each, project, operator, titles) for each in _rows(project_id)]
    except LoomError as error:
        problem = error.message
    context = {
        "title": "Models",
        "project": project,
        "projects": choices_named(project, operator.where(Permission.MODELS).values()),
        "rows": rows,
        "refused": refused,
        "problem": problem,
    }
    return render(request, "console/models.html", context, status=400 if refused else 200)


def _row(each: Assignment, project: str, operator: Operator, titles: dict[str, str]) -> dict[str, Any]:
    """``key_page`` is where a missing key is entered, for those who may."""
    key_page = ""
    if each.model is not None and each.lacks_key and operator.may(Permission.KEYS):
        key_page = reverse("admin:provider_key_setup", args=[project, each.model.provider])
    return {
        "it": each,
        "is_default": each.subject.kind is SubjectKind.DEFAULT,
        "is_own": each.resolved.subject == each.subject,
        "options": _options(each, titles),
        "key_page": key_page,
    }


def _options(each: Assignment, titles: dict[str, str]) -> list[Choice]:
    """Every model, before them no choice; a choice that has gone stays the chosen one until there is another."""
    without = {"": f"no choice here: {each.otherwise.model_id}"}
    gone = {each.choice: f"{each.choice} (not there any more)"} if each.choice and each.choice not in titles else {}
    return choices(each.choice or "", {**without, **gone, **titles})
