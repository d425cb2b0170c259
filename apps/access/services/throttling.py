"""Failed authentications are counted per client address and answered ``RATE_LIMITED`` past a bound (K24).

A valid credential is never refused for what its neighbours did: on a loopback service every client
has the same address, and one agent with a revoked credential must not lock the others out.  Faces
pass the connection's own address: ``X-Forwarded-For`` is whatever the client likes.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
import math
import threading
from collections import OrderedDict, deque

from apps.access.domain.entries import Entry
from apps.access.services.credentials import authenticate
from apps.core.caller import Caller
from apps.core.errors import ErrorCode, LoomError

MAX_FAILURES = 20
WINDOW = dt.timedelta(minutes=1)
#: Addresses remembered at a time; past it the one longest without a failure is forgotten.
MAX_ADDRESSES = 4096


class FailureCounts:
    """The latest failures of each address, in bounded memory; safe between threads."""

    def __init__(self) -> None:
        self._failures: OrderedDict[str, deque[dt.datetime]] = OrderedDict()
        self._guard = threading.Lock()

    def note(self, address: str, now: dt.datetime) -> int:
        """Count one failure; the whole seconds to wait when it is one too many, else 0."""
        key = _network(address)
        with self._guard:
            failures = self._failures.setdefault(key, deque(maxlen=MAX_FAILURES))
            self._failures.move_to_end(key)
            if len(self._failures) > MAX_ADDRESSES:
                self._failures.popitem(last=False)
            if len(failures) == MAX_FAILURES and now - failures[0] < WINDOW:
                return max(1, math.ceil((failures[0] + WINDOW - now).total_seconds()))
            failures.append(now)
            return 0

    def clear(self) -> None:
        """Forget every failure."""
        with self._guard:
            self._failures.clear()

    def __len__(self) -> int:
        return len(self._failures)


def _network(address: str) -> str:
    """What one client holds: an IPv4 address, or the /64 that an IPv6 client can choose from."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    return str(ipaddress.ip_network((found, 64), strict=False)) if found.version == 6 else address


#: This process's counts.
failure_counts = FailureCounts()


def authenticate_from(*, address: str, authorization: str | None, entry: Entry, now: dt.datetime) -> Caller:
    """:func:`~apps.access.services.credentials.authenticate` for a caller at ``address``.

    Raises what it raises, and ``RATE_LIMITED`` with ``retry_after`` seconds for a bad credential
    after ``MAX_FAILURES`` of them within ``WINDOW``.  A missing credential is not a bad one.
    """
    try:
        return authenticate(authorization=authorization, entry=entry, now=now)
    except LoomError as error:
        if error.code is ErrorCode.UNAUTHENTICATED and authorization is not None:
            wait = failure_counts.note(address, now)
            if wait:
                message = f"Too many bad credentials from this address; try again in {wait} s."
                raise LoomError(ErrorCode.RATE_LIMITED, message, retry_after=wait) from None
        raise
