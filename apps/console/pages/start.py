"""The bare address of the service: a browser is led to the console, which has it sign in."""

from __future__ import annotations

from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.csrf import csrf_exempt


@csrf_exempt
def start(request: HttpRequest) -> HttpResponse:
    """302 for whoever asks for a page; there is nothing else here."""
    if request.method in ("GET", "HEAD") and "text/html" in request.headers.get("Accept", ""):
        return HttpResponseRedirect(reverse("admin:index"))
    raise Http404
