"""Access: credentials, made (their text shown once), looked at, and revoked."""

from __future__ import annotations

import datetime as dt
import uuid

from django.contrib import messages
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect

from apps.access.domain.credentials import LONGEST_LABEL, MOST_DAYS, days_in, is_label
from apps.access.domain.entries import CREDENTIAL_SOURCES, paths_opened
from apps.access.selectors.listing import credential_named, list_credentials
from apps.access.selectors.projects import project_named
from apps.access.services.credentials import create_credential, revoke_credential
from apps.console.page import page, render, require
from apps.console.pages.choosing import choices, choices_named, narrowed, typed
from apps.console.permissions import Operator, Permission
from apps.console.record import record_credential
from apps.core import clock
from apps.core.caller import Source
from apps.core.errors import LoomError
from apps.core.ids import new_id

ROWS = 50


@page(Permission.CREDENTIALS)
def access(request: HttpRequest, operator: Operator) -> HttpResponse:
    """The credentials of the Projects in which the operator may make them."""
    return _page(request, operator)


def _page(
    request: HttpRequest, operator: Operator, errors: dict[str, str] | None = None, status: int = 200
) -> HttpResponse:
    managed = operator.where(Permission.CREDENTIALS)
    named = typed(request.GET, "project")
    try:
        before = uuid.UUID(request.GET["before"]) if "before" in request.GET else None
    except ValueError:
        raise Http404 from None
    found = list_credentials(project_ids=narrowed(managed, named), now=clock.now(), limit=ROWS + 1, before=before)
    filled = {name: request.POST.get(name, "") for name in ("project", "source", "label", "days")}
    context = {
        "title": "Access",
        "credentials": found[:ROWS],
        "older": found[ROWS - 1].id if len(found) > ROWS else None,
        "project": named,
        "projects": choices_named(named, managed.values()),
        "homes": choices_named(filled["project"], managed.values()),
        "sources": choices(filled["source"], {source.value: _opens(source) for source in CREDENTIAL_SOURCES}),
        "filled": filled,
        "form_id": new_id(),
        "errors": errors or {},
    }
    return render(request, "console/access.html", context, status=status)


def _form_id(request: HttpRequest) -> uuid.UUID | None:
    """The id that the form was given: pressed twice, or sent again by a reload, it makes one credential."""
    try:
        return uuid.UUID(request.POST.get("form", ""))
    except ValueError:
        return None


def _opens(source: Source) -> str:
    return f"{source.value}: {paths_opened(source)}"


@page(Permission.CREDENTIALS, methods=("POST",), otherwise="admin:console_access")
def create(request: HttpRequest, operator: Operator) -> HttpResponse:
    """Make a credential; this answer is the only one that ever shows its text (K2)."""
    label, days = request.POST.get("label", "").strip(), request.POST.get("days", "").strip()
    errors = {}
    if not is_label(label):
        errors["label"] = f"A label is one line of 1 to {LONGEST_LABEL} printable characters."
    ends_after = days_in(days)
    if days and ends_after is None:
        errors["days"] = f"Give a whole number of days from 1 to {MOST_DAYS:,}, or nothing."
    if request.POST.get("source") not in {source.value for source in CREDENTIAL_SOURCES}:
        errors["source"] = "Choose which Entries it opens."
    home = operator.project_named(request.POST.get("project", ""))
    if home is None:
        errors["project"] = "Choose its home."
    form_id = _form_id(request)
    if form_id is None:
        errors["form"] = "This form has lost its id. Here is a new one; send it again."
    if errors or home is None:
        return _page(request, operator, errors, status=400)
    require(operator, Permission.CREDENTIALS, home)
    now, source = clock.now(), Source(request.POST["source"])
    try:
        with transaction.atomic():
            credential, text = create_credential(
                project=project_named(operator.projects[home]),
                source=source,
                label=label,
                now=now,
                expires_at=now + dt.timedelta(days=ends_after) if ends_after else None,
                credential_id=form_id,
            )
            said = f"made {credential.public_id} for {source.value} in Project {operator.projects[home]}: {label}"
            record_credential(user=request.user, public_id=credential.public_id, is_new=True, said=said)
    except LoomError as refused:
        return _page(request, operator, {"form": refused.message}, status=409)
    context = {
        "title": "A new credential",
        "text": text,
        "entry": credential_named(public_id=credential.public_id, now=now),
        "opens": _opens(source),
    }
    answer = render(request, "console/credential.html", context)
    answer["Cache-Control"] = "no-store"
    return answer


@page(Permission.CREDENTIALS, methods=("POST",), otherwise="admin:console_access")
def revoke(request: HttpRequest, operator: Operator, public_id: str) -> HttpResponse:
    """End a credential for good; Runs that were started with it are paused when they come to their next segment."""
    now = clock.now()
    entry = credential_named(public_id=public_id, now=now)
    if entry is None or entry.project_id not in operator.projects:
        raise Http404
    require(operator, Permission.CREDENTIALS, entry.project_id)
    with transaction.atomic():
        _, is_ended = revoke_credential(public_id=public_id, now=now)
        if is_ended:
            said = f"revoked {public_id}: {entry.label}"
            record_credential(user=request.user, public_id=public_id, is_new=False, said=said)
    if is_ended:
        messages.success(request, f"Credential {public_id} ({entry.label}) is revoked: it opens nothing any more.")
    else:
        messages.info(request, f"Credential {public_id} had been revoked before.")
    return redirect("admin:console_access")
