"""Request bodies: I-JSON, sent plainly, bounded before it is read (contract section 1, K23)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import IO, Any

from django.conf import settings
from django.utils.http import parse_header_parameters
from rest_framework import status
from rest_framework.exceptions import APIException, UnsupportedMediaType
from rest_framework.parsers import BaseParser
from rest_framework.request import Request

from apps.core import json_text
from apps.core.errors import ErrorCode, LoomError, invalid_request


class LengthRequired(APIException):
    """A body of unknown length is not read: it could not be bounded."""

    status_code = status.HTTP_411_LENGTH_REQUIRED
    default_detail = "Send the body with a Content-Length, not chunked."


class StrictJsonParser(BaseParser):
    """``application/json`` in UTF-8, uncompressed.

    Values out of bounds are kept as they are: the contract reports each with its pointer.
    """

    media_type = "application/json"

    def parse(
        self, stream: IO[Any], media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
    ) -> Any:
        text = stream.read(_limit() + 1)
        _check_size(len(text))
        try:
            return json_text.parse(text)
        except json_text.NotJson as error:
            raise invalid_request("Request", [error.issue]) from None


def read_body(request: Request) -> Any:
    """The JSON body of ``request``; an absent one counts as ``{}``.

    Raises ``INVALID_REQUEST`` with pointers, ``PAYLOAD_TOO_LARGE``, or what HTTP has for it (411, 415).
    """
    if "Transfer-Encoding" in request.headers and "Content-Length" not in request.headers:
        raise LengthRequired
    if request.stream is not None:
        # Before a parser is looked for: where none is found, nothing says what to send.
        _check_headers(request)
    return request.data


def _check_headers(request: Request) -> None:
    media_type = request.content_type or ""
    kind, parameters = parse_header_parameters(media_type)
    if kind != StrictJsonParser.media_type or parameters.get("charset", "utf-8").lower() not in ("utf-8", "utf8"):
        raise UnsupportedMediaType(media_type, "Send the body as `Content-Type: application/json`, in UTF-8.")
    encoding = request.headers.get("Content-Encoding", "identity").strip().lower()
    if encoding != "identity":
        raise UnsupportedMediaType(encoding, "Send the body without Content-Encoding.")
    _check_size(int(request.headers["Content-Length"]))


def _limit() -> int:
    limit: int = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
    return limit


def _check_size(size: int) -> None:
    if size > _limit():
        raise LoomError(ErrorCode.PAYLOAD_TOO_LARGE, f"Send at most {_limit()} bytes.")
