"""Errors over HTTP: ``application/problem+json`` (RFC 9457) with the members of contract rule E1.

The only place that knows which HTTP status an error code has (E2).  What is no business error is
answered with generic words; what really happened goes to the log under an incident id (K26).
"""

from __future__ import annotations

import logging
import uuid
from http import HTTPStatus
from typing import Any

from django.core.exceptions import PermissionDenied, RequestDataTooBig, SuspiciousOperation
from django.http import Http404, HttpResponse
from django.http.request import UnreadablePostError
from pydantic import ConfigDict
from rest_framework.exceptions import APIException, MethodNotAllowed

from apps.core import json_text
from apps.core.contracts import Contract, Json
from apps.core.database import DATABASE_TROUBLE
from apps.core.endpoints import Endpoint
from apps.core.errors import ErrorCode, LoomError
from apps.core.outages import outage

logger = logging.getLogger("loomsvc.rest")

MEDIA_TYPE = "application/problem+json"
#: What a client without a valid credential is told to send (N3).
CHALLENGE = 'Bearer realm="loomsvc"'
#: Seconds until a retry makes sense where the error does not say.
RETRY_AFTER = 5

_STATUS = {
    ErrorCode.INVALID_REQUEST: HTTPStatus.BAD_REQUEST,
    ErrorCode.UNAUTHENTICATED: HTTPStatus.UNAUTHORIZED,
    ErrorCode.FORBIDDEN: HTTPStatus.FORBIDDEN,
    ErrorCode.NOT_FOUND: HTTPStatus.NOT_FOUND,
    ErrorCode.CONFLICT: HTTPStatus.CONFLICT,
    ErrorCode.BUSY: HTTPStatus.CONFLICT,
    ErrorCode.INSTANCE_CHANGED: HTTPStatus.CONFLICT,
    ErrorCode.CAPACITY: HTTPStatus.CONFLICT,
    ErrorCode.TOOLS_CLOSED: HTTPStatus.CONFLICT,
    ErrorCode.RELEASE_UNAVAILABLE: HTTPStatus.CONFLICT,
    ErrorCode.MIRROR_DIVERGED: HTTPStatus.CONFLICT,
    ErrorCode.MIRROR_INVALID: HTTPStatus.UNPROCESSABLE_ENTITY,
    ErrorCode.TOOL_FAILED: HTTPStatus.UNPROCESSABLE_ENTITY,
    ErrorCode.PAYLOAD_TOO_LARGE: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    ErrorCode.RATE_LIMITED: HTTPStatus.TOO_MANY_REQUESTS,
    ErrorCode.UNAVAILABLE: HTTPStatus.SERVICE_UNAVAILABLE,
    ErrorCode.INTERNAL: HTTPStatus.INTERNAL_SERVER_ERROR,
}
#: Statuses of HTTP itself (405, 415, …) have no code of their own: the request was not a valid one.
_CODE_OF_STATUS = {
    HTTPStatus.UNAUTHORIZED: ErrorCode.UNAUTHENTICATED,
    HTTPStatus.FORBIDDEN: ErrorCode.FORBIDDEN,
    HTTPStatus.NOT_FOUND: ErrorCode.NOT_FOUND,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: ErrorCode.PAYLOAD_TOO_LARGE,
    HTTPStatus.TOO_MANY_REQUESTS: ErrorCode.RATE_LIMITED,
}


class IssueView(Contract):
    """One thing wrong with an input; ``path`` is an RFC 6901 pointer into the arguments (E3)."""

    code: str
    path: str
    suggestion: str


class Validation(Contract):
    """Everything wrong with an input, at most 50 issues (E3)."""

    contract: str
    issues: list[IssueView]
    truncated: bool


class Problem(Contract):
    """An error as REST answers it: RFC 9457's members and those of rule E1."""

    model_config = ConfigDict(extra="allow")

    type: str
    title: str
    status: int
    detail: str
    code: ErrorCode
    message: str
    retryable: bool
    details: dict[str, Json] | None = None
    validation: Validation | None = None
    #: The stored receipt of a rejected Operation and the Run's present view (O6).
    receipt: dict[str, Json] | None = None
    run: dict[str, Json] | None = None


def problem(error: LoomError, status: HTTPStatus | None = None) -> Problem:
    """The body for ``error``; ``status`` where HTTP itself has a more exact one than E2's table."""
    status = status or _STATUS[error.code]
    attachments = {
        name: value.to_wire() if isinstance(value, Contract) else value for name, value in error.attachments.items()
    }
    body = {
        "type": "about:blank",
        "title": status.phrase,
        "status": status.value,
        "detail": error.to_wire()["message"],
        **error.to_wire(),
        "code": error.code,
        **attachments,
    }
    return Problem.model_validate(body)


def problem_response(error: LoomError, status: HTTPStatus | None = None) -> HttpResponse:
    """The answer for ``error``, never to be kept by a cache."""
    return _response(error, status, problem(error, status).to_wire(), MEDIA_TYPE)


def _response(error: LoomError, status: HTTPStatus | None, body: Any, media_type: str) -> HttpResponse:
    status = status or _STATUS[error.code]
    response = HttpResponse(json_text.dumps(body), status=status, content_type=media_type)
    response["Content-Length"] = str(len(response.content))
    response["Cache-Control"] = "no-store"
    if status == HTTPStatus.UNAUTHORIZED:
        response["WWW-Authenticate"] = CHALLENGE
    if error.code in (ErrorCode.RATE_LIMITED, ErrorCode.UNAVAILABLE):
        response["Retry-After"] = str(RETRY_AFTER if error.retry_after is None else error.retry_after)
    return response


def exception_handler(exc: Exception, context: dict[str, Any]) -> HttpResponse:
    """REST framework's hook: every exception of a view becomes a problem, or what its Endpoint has instead."""
    error, status = _as_error(exc)
    endpoint = _endpoint_of(context)
    if endpoint is None or endpoint.error_form is None:
        return problem_response(error, status)
    return _response(error, status, endpoint.refusal(error), "application/json")


def _endpoint_of(context: dict[str, Any]) -> Endpoint[Any, Any] | None:
    """The Endpoint that the request's method names at its address."""
    bindings = getattr(context.get("view"), "bindings", {})
    binding = bindings.get(getattr(context.get("request"), "method", None))
    return None if binding is None else binding.endpoint


def _as_error(exc: Exception) -> tuple[LoomError, HTTPStatus | None]:
    if isinstance(exc, LoomError):
        return exc, None
    if isinstance(exc, APIException):
        return _http_refusal(exc)
    if isinstance(exc, Http404):
        return LoomError(ErrorCode.NOT_FOUND, "There is nothing at this address."), None
    if isinstance(exc, PermissionDenied):
        return LoomError(ErrorCode.FORBIDDEN, "This is not allowed."), None
    if isinstance(exc, RequestDataTooBig):
        return LoomError(ErrorCode.PAYLOAD_TOO_LARGE, "Send a smaller body."), None
    if isinstance(exc, (SuspiciousOperation, UnreadablePostError)):
        return LoomError(ErrorCode.INVALID_REQUEST, "The request could not be read."), None
    if isinstance(exc, DATABASE_TROUBLE):
        logger.warning("the database does not answer: %s", type(exc).__name__, exc_info=exc)
        return outage(exc), None
    return _unexpected(exc), None


def _http_refusal(exc: APIException) -> tuple[LoomError, HTTPStatus]:
    status = HTTPStatus(exc.status_code)
    code = _CODE_OF_STATUS.get(status, ErrorCode.INVALID_REQUEST)
    message = "Use another method; `Allow` lists them." if isinstance(exc, MethodNotAllowed) else str(exc.detail)
    return LoomError(code, message), status


def _unexpected(exc: Exception) -> LoomError:
    incident = uuid.uuid4()
    logger.error("incident %s: %s", incident, type(exc).__name__, exc_info=exc)
    message = f"Something went wrong inside the service; the operator finds it in the log as incident {incident}."
    return LoomError(ErrorCode.INTERNAL, message, details={"incident": str(incident)})
