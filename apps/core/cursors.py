"""Keyset cursors: where a page ended, bound to the list and filters it was made for (R3, S2)."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from apps.core import json_text
from apps.core.errors import Issue, LoomError, invalid_request

K = TypeVar("K")


def encode(listing: str, filters: Mapping[str, Any], last_key: str) -> str:
    """An opaque cursor that continues ``listing`` after ``last_key``."""
    body = json_text.dumps([last_key, _binding(listing, filters)])
    return base64.urlsafe_b64encode(body.encode()).decode().rstrip("=")


def decode(listing: str, filters: Mapping[str, Any], cursor: str | None, key_of: Callable[[str], K]) -> K | None:
    """The key to continue after; ``INVALID_REQUEST`` when the cursor is not one of this list's.

    ``key_of`` reads the key and raises ``ValueError`` for what is none: anyone can write a cursor.
    """
    if cursor is None:
        return None
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        key, binding = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
        if isinstance(key, str) and binding == _binding(listing, filters) and not json_text.find_issues(key):
            return key_of(key)
    except (ValueError, TypeError, binascii.Error, RecursionError):
        pass
    raise _refused(listing)


def number(key: str) -> int:
    """A key that counts from 0 and fits every database's integers."""
    value = int(key) if key.isascii() and key.isdigit() and len(key) <= 18 else -1
    if value < 0:
        raise ValueError("not a number")
    return value


def _binding(listing: str, filters: Mapping[str, Any]) -> str:
    return json_text.digest([listing, dict(filters)])[:16]


def _refused(listing: str) -> LoomError:
    hint = f"Use a cursor that {listing} returned, with the same filters, or leave it out."
    return invalid_request(listing, [Issue("cursor", "/cursor", hint)])
