"""How a page is made: a function of the request and the operator, behind sign-in and one permission.

    @page(Permission.SEE)
    def workers(request: HttpRequest, operator: Operator) -> HttpResponse:
        return render(request, "console/workers.html", {"title": "Workers", "workers": ...})

1. Write the function in ``pages/`` and its template, which extends ``console/base.html``.
2. Give it an address and a name in ``urls.py``; templates link to it as ``{% url 'admin:console_…' %}``.
3. Where it belongs into the bar, add it to ``navigation.ENTRIES``.

A page only reads and answers GET and HEAD; what writes is declared with ``methods=("POST",)``, and goes
through the operations ledger (``operations.py``).  Nothing of another Project may show: pass
``operator.projects`` on to selectors, or look a thing up with its Project and let ``Http404`` say the rest.
"""

from __future__ import annotations

import functools
import hashlib
import re
import uuid
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.cache import get_conditional_response
from django.utils.functional import SimpleLazyObject

from apps.console.permissions import SUPERUSER_ONLY, Operator, Permission, operator_of
from apps.core.database import planned_for_values
from apps.core.errors import ErrorCode, LoomError
from apps.core.threads import takes_long
from apps.ledger.selectors.instances import current_instance

P = ParamSpec("P")

#: What is new at each rendering and yet no news.
_FRESH = re.compile(rb'name="(?:operationId|csrfmiddlewaretoken)" value="[^"]*"')


def page(
    permission: Permission, *, methods: tuple[str, ...] = ("GET", "HEAD"), otherwise: str = "", long: bool = False
) -> Callable[
    [Callable[Concatenate[HttpRequest, Operator, P], HttpResponse]], Callable[Concatenate[HttpRequest, P], HttpResponse]
]:
    """Whoever is not signed in goes to the sign-in page; without ``permission`` in any Project the answer is 403.

    ``otherwise`` is the page that a look at the address of a form leads to: after a refusal it stands in the browser's
    bar, and loading it must not be an empty 405.  ``long``: it may read or write a whole Mirror, on a thread for such.
    """

    def decorate(
        view: Callable[Concatenate[HttpRequest, Operator, P], HttpResponse],
    ) -> Callable[Concatenate[HttpRequest, P], HttpResponse]:
        @functools.wraps(view)
        def guarded(request: HttpRequest, *args: P.args, **kwargs: P.kwargs) -> HttpResponse:
            if otherwise and request.method in ("GET", "HEAD"):
                place = {name: value for name, value in kwargs.items() if name in ("run_id", "mirror_id")}
                return HttpResponseRedirect(reverse(otherwise, kwargs=place))
            if request.method not in methods:
                return HttpResponseNotAllowed(methods)
            operator = operator_of(request)
            try:
                if not operator.may(permission):
                    raise PermissionDenied(lacking(permission))
                if "\x00" in request.path:
                    raise Http404  # No name has it, and PostgreSQL takes it in no question.
                with planned_for_values():
                    return view(request, operator, *args, **kwargs)
            except PermissionDenied as refusal:
                return refuse(request, "Not allowed", str(refusal), 403)
            except Http404:
                return refuse(request, "Not found", "There is nothing here, or nothing that you may see.", 404)
            except LoomError as error:
                if error.code is ErrorCode.NOT_FOUND:
                    return refuse(request, "Not found", "There is nothing here, or nothing that you may see.", 404)
                raise

        return takes_long(admin.site.admin_view(guarded), *methods if long else ())  # type: ignore[return-value]

    return decorate


def lacking(permission: Permission, project: str = "") -> str:
    """Why somebody may not: a permission that can be given is named, and of others who alone may."""
    if permission in SUPERUSER_ONLY:
        return "Only superusers may do this; no permission gives it."
    return f"Your account lacks the permission {permission.value}{f' in {project}' if project else ''}."


def require(operator: Operator, permission: Permission, project_id: uuid.UUID) -> None:
    """For what is done in one Project that the operator sees: 403 unless they may do it there."""
    if not operator.may(permission, project_id):
        raise PermissionDenied(lacking(permission, operator.projects[project_id]))


def refuse(request: HttpRequest, title: str, reason: str, status: int) -> HttpResponse:
    """A page that says why there is nothing to see, and what helps."""
    cure = "A superuser gives permissions, at your account." if status == 403 else ""
    return render(request, "console/refused.html", {"title": title, "reason": reason, "cure": cure}, status=status)


def render(
    request: HttpRequest, template: str, context: dict[str, Any], *, live: str = "", status: int = 200
) -> HttpResponse:
    """A page in the console's frame; ``context`` has at least its ``title``.

    ``live`` is the template of the part that follows along: an element ``<div id="live" data-live="on">``
    (``off`` once nothing will change any more), which the page's template includes.  News are that part alone,
    without the frame and what the frame needs to know.
    """
    # Asked for by the first form (``{% operation %}``), once for all of a page.
    context = {"instance_id": SimpleLazyObject(lambda: current_instance().id), **context}
    if not live or "X-Live" not in request.headers:
        whole = {**admin.site.each_context(request), **context}
        return TemplateResponse(request, template, whole, status=status).render()
    part = TemplateResponse(request, live, context, status=status).render()
    part["ETag"] = f'"{hashlib.sha256(_FRESH.sub(b"", part.content)).hexdigest()[:32]}"'
    return get_conditional_response(request, etag=part["ETag"], response=part) or part
