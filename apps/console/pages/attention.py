"""Needs attention: what waits for a person, what is stuck, each with its next step."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse

from apps.console.page import page, render
from apps.console.permissions import Operator, Permission


@page(Permission.SEE)
def attention(request: HttpRequest, operator: Operator) -> HttpResponse:
    """The home of the console."""
    return render(request, "console/attention.html", {"title": "Needs attention", "sections": []})
