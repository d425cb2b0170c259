"""The forms that clients were asked to show, where any web process finds them (H4)."""

from __future__ import annotations

import datetime as dt
import enum
import hashlib
import json
import uuid
from collections.abc import Collection

from django.db import IntegrityError, transaction

from apps.core import conf
from apps.mcp.elicitation import Action, Given, given_of
from apps.mcp.jsonrpc import Answer, RequestId
from apps.mcp.models import Wait
from apps.mcp.sessions import OpenSession

#: A wait that its process left behind is removed this much later than any form may stay open.
_LEFT_BEHIND = dt.timedelta(minutes=5)
_BATCH = 1000


class Word(enum.Enum):
    """What a client said that is no answer."""

    #: It cancelled the call that asks.
    CANCELLED = "cancelled"
    #: There is no such wait any more: its session was ended.
    GONE = "gone"


def begin(*, session: OpenSession, call: RequestId, now: dt.datetime) -> uuid.UUID | None:
    """Note that a form is about to be shown; the id to ask under, ``None`` when the session has just ended."""
    try:
        with transaction.atomic():
            return Wait.objects.create(session_id=session.id, call=_digest(call), created_at=now).id
    except IntegrityError:
        return None


def tell(*, session: OpenSession, answer: Answer) -> bool:
    """Keep a client's answer for whichever process waits for it; False when nobody in its session does.

    The first answer counts.  One that is no answer to a form says that the form was not shown.
    """
    try:
        key = uuid.UUID(answer.id if isinstance(answer.id, str) else "")
    except ValueError:
        return False
    given = given_of("", answer.result) or Given("", Action.FAILED, {})
    reply = {"action": given.action.value, "content": dict(given.content)}
    with transaction.atomic():
        open_wait = Wait.objects.filter(pk=key, session_id=session.id, reply=None, cancelled=False)
        return open_wait.update(reply=reply) == 1


def cancel(*, session: OpenSession, call: RequestId) -> None:
    """End the wait of the session's call of that id, if it waits."""
    waiting = Wait.objects.filter(session_id=session.id, call=_digest(call))
    if waiting.exists():
        with transaction.atomic():
            waiting.update(cancelled=True)


def words(keys: Collection[uuid.UUID]) -> dict[uuid.UUID, Given | Word]:
    """What has been said to which of these waits, all in one statement; those that go on waiting are left out."""
    rows = Wait.objects.filter(pk__in=keys).values_list("pk", "reply", "cancelled")
    found: dict[uuid.UUID, Given | Word] = dict.fromkeys(keys, Word.GONE)
    for key, reply, cancelled in rows:
        if cancelled:
            found[key] = Word.CANCELLED
        elif reply is not None:
            found[key] = Given("", Action(reply["action"]), reply["content"])
        else:
            del found[key]
    return found


def end(key: uuid.UUID) -> None:
    """The call is over, or asks anew; an answer that still comes finds nobody."""
    with transaction.atomic():
        Wait.objects.filter(pk=key).delete()


def remove_left_behind(*, now: dt.datetime) -> int:
    """Remove what processes that died have left."""
    oldest = now - dt.timedelta(seconds=conf.settings().form_seconds) - _LEFT_BEHIND
    keys = list(Wait.objects.filter(created_at__lt=oldest).values_list("pk", flat=True)[:_BATCH])
    if keys:
        with transaction.atomic():
            Wait.objects.filter(pk__in=keys).delete()
    return len(keys)


def _digest(call: RequestId) -> str:
    return hashlib.sha256(json.dumps(call).encode()).hexdigest()
