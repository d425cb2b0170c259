"""The only reader of process time.  Lease times are not read here: they are computed in SQL."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from contextlib import contextmanager

_offset = dt.timedelta()


def now() -> dt.datetime:
    """The current time, UTC and aware."""
    return dt.datetime.now(dt.UTC) + _offset


@contextmanager
def moved(by: dt.timedelta) -> Iterator[None]:
    """Tests: run the block with this process's clock moved."""
    global _offset
    before, _offset = _offset, _offset + by
    try:
        yield
    finally:
        _offset = before


def to_wire(moment: dt.datetime) -> str:
    """ISO 8601 with microseconds and ``Z``."""
    # Not strftime: it writes the years before 1000 with fewer digits.
    return moment.astimezone(dt.UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"
