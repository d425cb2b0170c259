"""Addresses: every Endpoint that has a route, under ``/api/v1``, and ``/health``.

Each address works with and without a trailing slash; the form with one is not documented twice.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.urls import URLPattern, re_path

from apps.access.domain.entries import REST_ENTRY
from apps.core.endpoints import Endpoint, all_endpoints
from apps.core.threads import takes_long
from apps.rest.bindings import bind
from apps.rest.documents import DocumentPage, DocumentView, Patterns
from apps.rest.health import health
from apps.rest.views import EndpointView, UnknownAddress

_PREFIX = REST_ENTRY.path.strip("/")


def patterns_for(endpoints: Iterable[Endpoint[Any, Any]]) -> list[URLPattern]:
    """The URL patterns that serve ``endpoints``."""
    served: list[URLPattern] = []
    for bindings in bind(endpoints):
        regex = next(iter(bindings.values())).regex()
        names = [*map(str.lower, bindings), *(["head"] if "GET" in bindings else [])]
        view: dict[str, Any] = {"bindings": bindings, "http_method_names": names}
        long = [method for method, binding in bindings.items() if binding.endpoint.long_running]
        served += [
            # First, for a text id would take the slash for its own.
            re_path(rf"^{_PREFIX}/{regex}/\Z", takes_long(EndpointView.as_view(**view, schema=None), *long)),
            re_path(rf"^{_PREFIX}/{regex}\Z", takes_long(EndpointView.as_view(**view), *long)),
        ]
    return [
        re_path(rf"^{_PREFIX}/openapi\.json/?\Z", DocumentView.as_view(patterns=Patterns(served))),
        re_path(rf"^{_PREFIX}/docs/?\Z", DocumentPage.as_view()),
        *served,
        re_path(rf"^{_PREFIX}(?:/[\s\S]*)?\Z", UnknownAddress.as_view()),
        re_path(r"^health/?\Z", health),
    ]


urlpatterns = patterns_for(all_endpoints())
