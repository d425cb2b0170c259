"""The headers in which HTTP repeats what a message says; standard input has none (revision 2026-07-28)."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from typing import Any

from mcp_types import PROTOCOL_VERSION_META_KEY

from apps.mcp.protocol import METHOD_HEADER, NAME_HEADER, VERSION_HEADER

#: Which parameter of a method its name header repeats.
NAMED_BY = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
_PLAIN = re.compile(r"[!-~](?:[ -~]*[!-~])?")
_LOOKS_ENCODED = re.compile(r"=\?base64\?.*\?=")


def encode_header(value: str) -> str:
    """``value`` as it may stand in a header: in Base64 where plain ASCII does not carry it."""
    if _PLAIN.fullmatch(value) and not _LOOKS_ENCODED.fullmatch(value):
        return value
    raw = value.encode("utf-8", "surrogatepass")
    return f"=?base64?{base64.b64encode(raw).decode()}?="


def is_modern(params: Mapping[str, Any]) -> bool:
    """Whether a request carries its own revision, as those of the stateless era do."""
    meta = params.get("_meta")
    return isinstance(meta, dict) and PROTOCOL_VERSION_META_KEY in meta


def mirrored_headers(method: str, params: Mapping[str, Any]) -> dict[str, str]:
    """What the headers of a stateless request must repeat.

    No Tool of this service asks for a parameter in a header (``x-mcp-header``), so none is mirrored.
    """
    stated = {
        VERSION_HEADER: params["_meta"][PROTOCOL_VERSION_META_KEY],
        METHOD_HEADER: method,
        NAME_HEADER: params.get(NAMED_BY.get(method, "")),
    }
    return {header: encode_header(value) for header, value in stated.items() if isinstance(value, str)}
