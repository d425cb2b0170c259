"""Identifiers: UUIDs of version 7 (RFC 9562), which sort by the time they were made."""

from __future__ import annotations

import datetime as dt
import uuid

from uuid_utils import compat


def new_id() -> uuid.UUID:
    """A new id; two made in one process within a millisecond still sort in order."""
    return compat.uuid7()


def first_id_at(moment: dt.datetime) -> uuid.UUID:
    """The smallest id that can have been made at ``moment``: times become ranges of the primary key."""
    milliseconds = max(0, int(moment.timestamp() * 1000))
    return uuid.UUID(int=(milliseconds << 80) | (7 << 76) | (2 << 62))
