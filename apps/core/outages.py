"""What callers are told while the database cannot serve them."""

from __future__ import annotations

from apps.core.database import found_no_room
from apps.core.errors import ErrorCode, LoomError


def outage(error: BaseException) -> LoomError:
    """``UNAVAILABLE`` for one of ``database.DATABASE_TROUBLE``; its message says what must happen first."""
    if found_no_room(error):
        message = "The disk that the ledger is on is full; try again once its operator has made room."
    else:
        message = "The ledger does not answer just now; try again shortly."
    return LoomError(ErrorCode.UNAVAILABLE, message)
