"""One Endpoint over REST: find out who calls, gather the arguments, make one call, render."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.core.contracts import Contract
from apps.core.errors import ErrorCode, LoomError
from apps.rest import arguments
from apps.rest.authentication import Principal
from apps.rest.bindings import Binding
from apps.rest.openapi import EndpointSchema
from apps.rest.parsing import read_body


class OneAnswer(DefaultContentNegotiation):
    """Every ``Accept`` gets the one answer there is, as RFC 9110 allows: no client is sent away for it."""

    def select_renderer(
        self, request: Request, renderers: Any, format_suffix: str | None = None
    ) -> tuple[BaseRenderer, str]:
        return renderers[0], renderers[0].media_type


class ApiView(APIView):
    """What every address under ``/api/v1`` has in common; the rest stands in the settings."""

    content_negotiation_class = OneAnswer
    metadata_class = None
    schema = None

    @property
    def default_response_headers(self) -> dict[str, str]:
        return {**super().default_response_headers, "Cache-Control": "no-store"}


class EndpointView(ApiView):
    """The Endpoints of one path, by method."""

    schema = EndpointSchema()  # type: ignore[assignment]
    bindings: Mapping[str, Binding] = {}

    def get(self, request: Request, **path: str) -> Response:
        """Members come from the path and the query."""
        binding = self.bindings["GET"]
        members = arguments.from_query(request.META["QUERY_STRING"], binding.schema, binding.contract)
        return self._answer(binding, request, members, path)

    def post(self, request: Request, **path: str) -> Response:
        """Members come from the path and the JSON body."""
        binding = self.bindings["POST"]
        arguments.refuse_query(request.META["QUERY_STRING"], binding.contract)
        return self._answer(binding, request, read_body(request), path)

    def _answer(self, binding: Binding, request: Request, members: Any, path: Mapping[str, str]) -> Response:
        endpoint = binding.endpoint
        named = {name: arguments.from_path(text, name, binding.schema) for name, text in path.items()}
        given = arguments.with_path(members, named, binding.contract)
        principal: Principal = request.user  # type: ignore[assignment]
        output: Contract = endpoint.call(principal.caller, given)
        body = output.to_wire()
        missing = binding.route.null_is_missing
        if missing is not None and body[missing] is None:
            raise LoomError(ErrorCode.NOT_FOUND, f"No such {missing} in this Project.")
        return Response(body)


class UnknownAddress(ApiView):
    """Whatever else stands under ``/api/v1``: who has no credential learns nothing (K9)."""

    def http_method_not_allowed(self, request: Any, *args: Any, **kwargs: Any) -> NoReturn:
        raise LoomError(ErrorCode.NOT_FOUND, "There is nothing at this address; `/api/v1/openapi.json` lists all.")
