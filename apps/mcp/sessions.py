"""Opening, finding and ending the sessions of the ``initialize`` era (N5).

A session is no authority: every request brings its credential, and a session serves only the one that
opened it, at the Entry where it was opened.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import secrets
import uuid
from dataclasses import dataclass

from django.db import transaction

from apps.core import conf
from apps.core.caller import Caller
from apps.core.ids import new_id
from apps.core.prepared import PreparedRead
from apps.mcp.models import Session

#: Live sessions of one credential; past it the one longest without use gives way.
MOST_SESSIONS = 1000
#: A session in use is written anew when this part of its idle time has gone by, so a request seldom writes.
_UNWRITTEN = 1 / 24
_BATCH = 1000


@dataclass(frozen=True, slots=True)
class OpenSession:
    """What was agreed when the session was opened."""

    id: uuid.UUID
    version: str
    shows_forms: bool


def open_session(*, caller: Caller, version: str, shows_forms: bool, now: dt.datetime) -> str:
    """A new session; its id for the wire, which is not kept."""
    assert caller.credential_id is not None, "people at the console speak no MCP"
    text = secrets.token_urlsafe(32)
    with transaction.atomic():
        Session.objects.create(
            id=new_id(),
            digest=_digest(text),
            credential_id=caller.credential_id,
            entry=caller.entry,
            version=version,
            shows_forms=shows_forms,
            created_at=now,
            expires_at=_expiry(created=now, now=now),
        )
        newest = Session.objects.filter(credential_id=caller.credential_id).order_by("-expires_at")
        surplus = list(newest.values_list("id", flat=True)[MOST_SESSIONS : MOST_SESSIONS + _BATCH])
        if surplus:
            Session.objects.filter(id__in=surplus).delete()
    return text


#: The one statement that a request with a session costs.
_FIND = PreparedRead(Session, key=["digest"])


def find_session(*, caller: Caller, text: str, now: dt.datetime) -> OpenSession | None:
    """The session of that id; ``None`` for an unknown, expired or ended one, and for one that is another's."""
    row = _FIND.first(digest=_digest(text))
    if row is None or row.credential_id != caller.credential_id or row.entry != caller.entry or row.expires_at <= now:
        return None
    _keep_alive(row, now)
    return OpenSession(row.id, row.version, row.shows_forms)


def end_session(session: OpenSession) -> None:
    """End it for every process; calls that wait in it end too."""
    with transaction.atomic():
        Session.objects.filter(pk=session.id).delete()


def remove_expired(*, now: dt.datetime, limit: int = _BATCH) -> int:
    """Remove sessions that nobody can use any more."""
    expired = Session.objects.filter(expires_at__lte=now).order_by("expires_at")
    keys = list(expired.values_list("id", flat=True)[:limit])
    if keys:
        with transaction.atomic():
            # Asked again: one of them may have been used in this moment by a process whose clock is behind.
            Session.objects.filter(id__in=keys, expires_at__lte=now).delete()
    return len(keys)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("latin-1", "replace")).hexdigest()


def _expiry(*, created: dt.datetime, now: dt.datetime) -> dt.datetime:
    settings = conf.settings()
    return min(
        now + dt.timedelta(seconds=settings.session_idle_seconds),
        created + dt.timedelta(seconds=settings.session_seconds),
    )


def _keep_alive(row: Session, now: dt.datetime) -> None:
    expiry = _expiry(created=row.created_at, now=now)
    if expiry - row.expires_at > dt.timedelta(seconds=conf.settings().session_idle_seconds * _UNWRITTEN):
        with transaction.atomic():
            Session.objects.filter(pk=row.pk).update(expires_at=expiry)
