"""All rows: Django's own lists, for whatever has no page of its own."""

from __future__ import annotations

from django.contrib import admin
from django.http import HttpRequest, HttpResponse

from apps.console.page import page, render
from apps.console.permissions import Operator, Permission


@page(Permission.SEE)
def rows(request: HttpRequest, operator: Operator) -> HttpResponse:
    """The models that this person may look at, by app."""
    return render(request, "console/rows.html", {"title": "All rows", "apps": admin.site.get_app_list(request)})
