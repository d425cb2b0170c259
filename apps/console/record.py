"""What operators change outside the operations ledger, in Django's log (K25): credentials, models, restores.

What else stands there: accounts, which Django's pages change, and provider keys, which have a page of their own.
The log has no page that changes or removes its rows.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

from django.contrib.admin.models import ADDITION, CHANGE, DELETION, LogEntry
from django.contrib.auth.models import AnonymousUser, User

from apps.core.admin import record_change

_WORDS = {ADDITION: "added", CHANGE: "changed", DELETION: "deleted"}


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
    flag = ADDITION if is_new else CHANGE
    record_change(user=user, model=("access", "credential"), key=public_id, flag=flag, said=said)


def record_model_choice(*, user: User | AnonymousUser, project: str, subject: str, flag: int, said: str) -> None:
    """Keep that a signed-in person chose a model, or took the choice back; ``flag`` is one of Django's log."""
    key = f"{project}: {subject}"
    record_change(user=user, model=("agent_sessions", "modelchoice"), key=key, flag=flag, said=said)


def record_restore(*, user: User | AnonymousUser, mirror_id: str, said: str) -> None:
    """Keep that a signed-in person restored a Mirror."""
    record_change(user=user, model=("mirrors", "mirror"), key=mirror_id, flag=CHANGE, said=said)


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
