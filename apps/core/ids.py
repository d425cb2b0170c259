"""Identifiers: UUIDs of version 7 (RFC 9562), which sort by the time they were made."""

from __future__ import annotations

import datetime as dt
import re
import uuid

from uuid_utils import compat


def new_id() -> uuid.UUID:
    """A new id; two made in one process within a millisecond still sort in order."""
    return compat.uuid7()


def first_id_at(moment: dt.datetime) -> uuid.UUID:
    """The smallest id that can have been made at ``moment``: times become ranges of the primary key."""
    milliseconds = max(0, int(moment.timestamp() * 1000))
    return uuid.UUID(int=(milliseconds << 80) | (7 << 76) | (2 << 62))


def end_of_id(text: str) -> str | None:
    """The last 4 to 12 digits of a UUID as pages show them (``…227d4252``); ``None`` when ``text`` is no such end."""
    end = text.strip().removeprefix("…").lower()
    return end if re.fullmatch(r"[0-9a-f]{4,12}", end) else None
