"""Identifiers: UUIDs of version 7 (RFC 9562), which sort by the time they were made."""

from __future__ import annotations

import uuid

from uuid_utils import compat


def new_id() -> uuid.UUID:
    """A new id; two made in one process within a millisecond still sort in order."""
    return compat.uuid7()
