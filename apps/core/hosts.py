"""Which ``Host`` and ``Origin`` a request may name (N3, K7): the same decision for every face.

A page that rebinds its own name to this address still sends its own name in both.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from django.http.request import split_domain_port, validate_host

_ORIGIN = re.compile(r"https?://([^/?#@\s,]+)", re.IGNORECASE)
_TRAILING_DOT = re.compile(r"\.(:[0-9]*)?\Z")


def is_allowed_host(host: str | None, allowed_hosts: Collection[str]) -> bool:
    """Whether the header ``Host`` names one of ``allowed_hosts``; its port does not matter."""
    if not host or _TRAILING_DOT.search(host):
        return False
    domain, _port = split_domain_port(host)
    return bool(domain) and validate_host(domain, allowed_hosts)


def is_allowed_origin(origin: str | None, allowed_hosts: Collection[str]) -> bool:
    """Whether ``Origin`` is absent, or an ``http(s)`` origin on one of ``allowed_hosts``."""
    if origin is None:
        return True
    match = _ORIGIN.fullmatch(origin)
    return match is not None and is_allowed_host(match[1], allowed_hosts)
