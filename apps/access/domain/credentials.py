"""What a credential may be called, for how long it can be made, and how it stands at a moment (N2)."""

from __future__ import annotations

import datetime as dt
import enum

LONGEST_LABEL = 200
MOST_DAYS = 36_500


class State(enum.StrEnum):
    """Whether it opens anything."""

    LIVE = "live"
    EXPIRED = "expired"
    REVOKED = "revoked"


def state_of(*, revoked_at: dt.datetime | None, expires_at: dt.datetime | None, now: dt.datetime) -> State:
    """How a credential with these times stands at ``now``."""
    if revoked_at is not None:
        return State.REVOKED
    return State.EXPIRED if expires_at is not None and expires_at <= now else State.LIVE


def is_label(text: str) -> bool:
    """One line of printable characters, not blank and not too long."""
    return bool(text.strip()) and len(text) <= LONGEST_LABEL and text.isprintable()


def days_in(text: str) -> int | None:
    """A number of days after which a credential ends; ``None`` for what is none."""
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(MOST_DAYS))):
        return None
    days = int(text)
    return days if 1 <= days <= MOST_DAYS else None
