"""Whether a segment that raised is attempted again, and when (R12)."""

from __future__ import annotations

from collections.abc import Iterable

from apps.looms.domain.graph import Retry

#: Doubling stops here, long before a float would overflow.
LONGEST_BACKOFF_SECONDS = 30 * 86_400.0


def retry_delay(retry: Retry | None, *, attempt: int, error_names: Iterable[str]) -> float | None:
    """Seconds until the next attempt after ``attempt`` (counted from 1) raised; ``None``: no more.

    ``error_names`` names the exception's classes, base classes included; none at all means that
    nothing was raised (a wrong result, say), which is not attempted again.
    """
    names = set(error_names)
    if retry is None or attempt >= retry.attempts or not names:
        return None
    if retry.errors is not None and names.isdisjoint(retry.errors):
        return None
    return min(retry.backoff_seconds * 2.0 ** min(attempt - 1, 64), LONGEST_BACKOFF_SECONDS)
