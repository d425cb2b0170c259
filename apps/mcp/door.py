"""What a request must satisfy before anyone asks what it wants (N3, K4, K7, K23).

Pure decisions over the request's head; each raises :class:`RpcError` with the status of its refusal.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from mcp_types.jsonrpc import INVALID_REQUEST

from apps.core.exchange import Head
from apps.core.hosts import is_allowed_host, is_allowed_origin
from apps.mcp.jsonrpc import RpcError


def check_where_from(head: Head, allowed_hosts: Collection[str]) -> None:
    """``Host`` must be allowed, and ``Origin`` too where there is one."""
    if not is_allowed_host(head.get("host"), allowed_hosts):
        raise RpcError(INVALID_REQUEST, "This service does not answer to that Host.", status=421)
    if not is_allowed_origin(head.get("origin"), allowed_hosts):
        raise RpcError(INVALID_REQUEST, "Requests from that Origin are not allowed.", status=403)


def check_query(head: Head) -> None:
    """A credential in an address ends up in logs and histories, so none is taken there (K4)."""
    if head.query:
        raise RpcError(
            INVALID_REQUEST,
            "This address takes no query string; send the credential as `Authorization: Bearer loom_…`.",
        )


def check_form(head: Head) -> None:
    """Method, ``Accept``, ``Content-Type`` and ``Content-Encoding`` of a message.

    There is nothing to be told beside an answer, so GET opens no stream; DELETE ends a session, where there is one.
    """
    if head.method != "POST":
        allow = (("allow", "POST, DELETE"),)
        raise RpcError(INVALID_REQUEST, "Send messages by POST; GET opens no stream.", status=405, headers=allow)
    if not _accepts(head.get("accept") or "", ("application/json", "text/event-stream")):
        raise RpcError(
            INVALID_REQUEST, "Send `Accept: application/json, text/event-stream`; both types are needed.", status=406
        )
    media_type, _, parameters = (head.get("content-type") or "").partition(";")
    charset = re.search(r"charset\s*=\s*\"?([^\s;\"]*)", parameters, re.IGNORECASE)
    if media_type.strip().lower() != "application/json" or (charset and charset[1].lower() not in ("utf-8", "utf8")):
        raise RpcError(INVALID_REQUEST, "Send `Content-Type: application/json`, in UTF-8.", status=415)
    if (head.get("content-encoding") or "identity").strip().lower() != "identity":
        raise RpcError(INVALID_REQUEST, "Send the body without a Content-Encoding.", status=415)


def _accepts(header: str, wanted: Iterable[str]) -> bool:
    ranges = set()
    for item in header.lower().split(","):
        media_range, *parameters = (part.strip() for part in item.split(";"))
        if not any(re.fullmatch(r"q\s*=\s*0(\.0*)?", parameter) for parameter in parameters):
            ranges.add(media_range)
    return all({kind, f"{kind.partition('/')[0]}/*", "*/*"} & ranges for kind in wanted)
