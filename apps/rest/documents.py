"""The OpenAPI document and a page to read it, for callers and for staff signed in to the admin.

A browser sends no bearer credential when it opens a page, so both addresses also take the session
of a staff member.  They only read, and show nothing but the contract; calls tried out on the page
still need a credential, which is typed into the page.
"""

from __future__ import annotations

import functools
from typing import Any

from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.views import SpectacularSwaggerSplitView
from rest_framework.permissions import IsAuthenticated
from rest_framework.request import Request
from rest_framework.response import Response

from apps.rest.authentication import BearerAuthentication, StaffSessionAuthentication
from apps.rest.views import ApiView, OneAnswer

_READERS = [StaffSessionAuthentication, BearerAuthentication]


class Patterns(tuple[Any, ...]):
    """URL patterns that are told apart by identity, so that each set has one document."""

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other


@functools.cache
def document(patterns: Patterns) -> Any:
    """The OpenAPI document of ``patterns``; it does not change while the process lives."""
    generator = SchemaGenerator(patterns=list(patterns))  # type: ignore[no-untyped-call]
    return generator.get_schema(request=None, public=True)  # type: ignore[no-untyped-call]


class DocumentView(ApiView):
    """``GET /api/v1/openapi.json``."""

    authentication_classes = _READERS
    patterns = Patterns()

    def get(self, request: Request) -> Response:
        return Response(document(self.patterns))


class DocumentPage(SpectacularSwaggerSplitView):
    """``GET /api/v1/docs``: Swagger UI from the sidecar, without inline scripts (K16)."""

    authentication_classes = _READERS
    permission_classes = [IsAuthenticated]
    content_negotiation_class = OneAnswer
    metadata_class = None
    schema = None
    template_name = "rest/docs.html"
    url = "/api/v1/openapi.json"
