"""What operators change outside the operations ledger (accounts, credentials, models, restores), in Django's log (K25).

The log has no page that changes or removes its rows.  A row is written in the transaction of its change: there is
neither without the other.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

from django.contrib.admin.models import ADDITION, CHANGE, DELETION, LogEntry
from django.contrib.auth.models import AnonymousUser, User
from django.contrib.contenttypes.models import ContentType

_WORDS = {ADDITION: "added", CHANGE: "changed", DELETION: "deleted"}
_LONGEST = 200


@dataclass(frozen=True, slots=True)
class AccountChange:
    """Who changed what about accounts, roles or credentials."""

    at: dt.datetime
    by: str
    what: str
    change: str
    said: str


def record_credential(*, user: User | AnonymousUser, public_id: str, is_new: bool, said: str) -> None:
    """Keep that a signed-in person made or revoked a credential."""
    _record(user, ("access", "credential"), public_id, ADDITION if is_new else CHANGE, said)


def record_model_choice(*, user: User | AnonymousUser, project: str, subject: str, flag: int, said: str) -> None:
    """Keep that a signed-in person chose a model, or took the choice back; ``flag`` is one of Django's log."""
    _record(user, ("agent_sessions", "modelchoice"), f"{project}: {subject}"[:_LONGEST], flag, said)


def record_restore(*, user: User | AnonymousUser, mirror_id: str, said: str) -> None:
    """Keep that a signed-in person restored a Mirror."""
    _record(user, ("mirrors", "mirror"), mirror_id, CHANGE, said)


def _record(user: User | AnonymousUser, model: tuple[str, str], key: str, flag: int, said: str) -> None:
    assert user.pk is not None, "a page without a signed-in person made a write"
    LogEntry.objects.create(
        user_id=user.pk,
        content_type=ContentType.objects.get_by_natural_key(*model),
        object_id=key,
        object_repr=key,
        action_flag=flag,
        change_message=said[:_LONGEST],
    )


def account_changes(*, limit: int) -> list[AccountChange]:
    """The latest changes, the newest first."""
    rows = LogEntry.objects.select_related("user", "content_type").order_by("-id")[:limit]
    return [
        AccountChange(
            at=row.action_time,
            by=row.user.get_username(),
            what=f"{row.content_type.model if row.content_type else ''} {row.object_repr}".strip(),
            change=_WORDS.get(row.action_flag, "changed"),
            said=row.get_change_message(),
        )
        for row in rows
    ]
