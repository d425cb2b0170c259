"""The page where an operator enters a Project's key for a provider (B5, K5).

Its address holds no secret and may be shown to anybody; the page holds none either.  It takes a
signed-in superuser, and changes something on POST with a CSRF token only.
"""

from __future__ import annotations

import uuid
from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.admin import AdminSite
from django.contrib.admin.models import CHANGE, DELETION
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods

from apps.access.selectors.projects import project_named
from apps.agent_sessions.runtime.models import Provider
from apps.agent_sessions.services.key_tests import WORKS, check_provider_key
from apps.agent_sessions.services.models import known_models
from apps.agent_sessions.services.provider_keys import remove_provider_key, set_provider_key, view_provider_key
from apps.core import clock
from apps.core.admin import record_change
from apps.core.errors import LoomError


class KeyForm(forms.Form):
    """The key is never put into the page again, not even after a mistake."""

    key = forms.CharField(
        max_length=1000,
        strip=True,
        widget=forms.PasswordInput(attrs={"autocomplete": "off", "spellcheck": "false"}, render_value=False),
    )


@sensitive_post_parameters("key")
@require_http_methods(["GET", "HEAD", "POST"])
def provider_key_page(request: HttpRequest, project: str, provider: str, *, site: AdminSite) -> HttpResponse:
    """Show what may be known of the key; on POST keep, test or forget it."""
    # No role gives it: keys are for superusers (K14).
    if not request.user.is_superuser:
        raise PermissionDenied
    project_id, named = _find(project, provider)
    response: HttpResponse
    if request.method == "POST":
        _act(request, project, project_id, named)
        # Seen with GET, so that a reload sends nothing again.
        response = HttpResponseRedirect(request.path)
        response.status_code = 303
    else:
        context = {
            **site.each_context(request),
            "title": f"Key of Project {project} for {named.display_name}",
            "provider": named,
            "key": view_provider_key(project_id=project_id, provider=named.id),
            "form": KeyForm(),
        }
        response = TemplateResponse(request, "agent_sessions/provider_key.html", context)
    response["Cache-Control"] = "no-store"
    response["Referrer-Policy"] = "no-referrer"
    return response


def _find(project: str, provider: str) -> tuple[uuid.UUID, Provider]:
    named = next((one for one in known_models().providers() if one.id == provider and one.needs_key), None)
    if named is None:
        raise Http404
    try:
        return project_named(project).pk, named
    except LoomError:
        raise Http404 from None


def _record(request: HttpRequest, project: str, provider: Provider, flag: int, said: str) -> None:
    """Keep who did it, of the key nothing (K25)."""
    key = f"{project}: {provider.id}"
    record_change(user=request.user, model=("agent_sessions", "providerkey"), key=key, flag=flag, said=said)


def _act(request: HttpRequest, project: str, project_id: uuid.UUID, provider: Provider) -> None:
    """Do what was asked, and say how it ended."""
    where: dict[str, Any] = {"project_id": project_id, "provider": provider.id}
    form = KeyForm(request.POST)
    try:
        match request.POST.get("action"):
            case "keep" if form.is_valid():
                with transaction.atomic():
                    by, now = request.user.get_username(), clock.now()
                    set_provider_key(**where, key=form.cleaned_data["key"], by=by, now=now)
                    _record(request, project, provider, CHANGE, "entered a key")
                messages.success(request, "The key is kept. It is not shown again.")
            case "test":
                result = check_provider_key(**where, now=clock.now())
                say = messages.success if result == WORKS else messages.warning
                say(request, f"The test: {result}")
            case "forget":
                with transaction.atomic():
                    if remove_provider_key(**where):
                        _record(request, project, provider, DELETION, "had the key forgotten")
                messages.success(request, "The key is forgotten.")
            case _:
                messages.error(request, "Nothing was changed: enter a key.")
    except LoomError as error:
        messages.error(request, error.issues[0].suggestion if error.issues else error.message)
