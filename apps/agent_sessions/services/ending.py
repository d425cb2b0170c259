"""How a session ends: once, with its usage counted in the same transaction (B3, B9)."""

from __future__ import annotations

import datetime as dt
import logging
import uuid
from collections.abc import Callable
from typing import Any

from django.db import transaction
from django.db.models import Q

from apps.agent_sessions.domain.sessions import AfterLoss, State, decide_loss
from apps.agent_sessions.models import AgentSession
from apps.agent_sessions.runtime.ended import Usage
from apps.agent_sessions.services.bell import ring, ring_on_commit
from apps.agent_sessions.services.usage import count_usage
from apps.core import conf
from apps.core.database import DATABASE_TROUBLE, database_now, for_update
from apps.core.failpoints import Failpoint, reach
from apps.ledger.selectors.instances import current_instance

logger = logging.getLogger("loomsvc.agent_sessions")

_BATCH = 100
_MOST_RINGS = 16
_RETENTION_BATCH = 200
_INTERRUPTED = (
    "The worker was lost after a request to the model went out. What came of it is not known, and nothing was sent "
    "again. Start another agent if its work is still wanted."
)
_LOST_TOO_OFTEN = "Workers were lost on this agent before it could ask its model anything. Start another agent."


def end(
    row: AgentSession, state: State, *, now: dt.datetime, output: Any = None, error: dict[str, Any] | None = None
) -> None:
    """End a locked session for good, and count what it used."""
    row.state = state
    row.output = output if state is State.SUCCEEDED else None
    row.error = error if state is State.FAILED else None
    row.finished_at = now
    row.fence += 1
    row.lease_owner, row.lease_expires_at = "", None
    row.save(
        update_fields=[
            "state",
            "output",
            "error",
            "finished_at",
            "fence",
            "lease_owner",
            "lease_expires_at",
            "requests",
            "input_tokens",
            "output_tokens",
            "tool_calls",
        ]
    )
    usage = Usage(row.requests, row.input_tokens, row.output_tokens, row.tool_calls)
    count_usage(project_id=row.project_id, model=row.model, usage=usage, now=now)


def fail(row: AgentSession, *, code: str, reason: str, message: str, now: dt.datetime, recovery: Any = None) -> None:
    """End a locked session as failed."""
    error = {"code": code, "reason": reason, "message": message}
    end(row, State.FAILED, now=now, error=error if recovery is None else {**error, "recovery": recovery})


def lose(row: AgentSession, *, now: dt.datetime) -> None:
    """The locked session's worker was lost: say what is true (B9)."""
    after = decide_loss(
        called=row.called_at is not None,
        cancel_requested=row.cancel_requested_at is not None,
        attempts=row.attempts,
    )
    logger.warning("agent session %s was cut off with its worker: %s", row.agent_session_id, after.value)
    if after is AfterLoss.AGAIN:
        row.state = State.QUEUED
        row.fence += 1
        row.lease_owner, row.lease_expires_at = "", None
        row.save(update_fields=["state", "fence", "lease_owner", "lease_expires_at"])
        ring_on_commit()
    elif after is AfterLoss.CANCELLED:
        end(row, State.CANCELLED, now=now)
    else:
        message = _INTERRUPTED if row.called_at is not None else _LOST_TOO_OFTEN
        fail(row, code="run_interrupted", reason="interrupted", message=message, now=now)


def interrupt_running(*, ended: uuid.UUID, now: dt.datetime) -> None:
    """A new instance is being opened: no worker of the ended one has a session any more."""
    # All rows before any usage: a landing holds its row and then wants the usage's.
    for row in list(for_update(AgentSession.objects.filter(state=State.RUNNING).order_by("id"))):
        lose(row, now=now)


def end_expired_sessions(*, now: dt.datetime) -> int:
    """Sessions whose lease nobody renewed, each in a transaction of its own."""
    expired = Q(state=State.RUNNING, lease_expires_at__lt=database_now())
    keys = list(AgentSession.objects.filter(expired).order_by("lease_expires_at").values_list("pk", flat=True)[:_BATCH])

    def lose_expired(key: uuid.UUID) -> bool:
        row = for_update(AgentSession.objects.filter(expired, pk=key), skip_locked=True).first()
        if row is None:
            return False
        lose(row, now=now)
        reach(Failpoint.IN_SWEEP)
        return True

    return sum(_each(keys, lose_expired))


def _each(keys: list[uuid.UUID], do: Callable[[uuid.UUID], bool]) -> list[bool]:
    """One that fails holds up no other."""
    done = []
    for key in keys:
        try:
            with transaction.atomic():
                done.append(do(key))
        except DATABASE_TROUBLE:
            raise
        except Exception as error:
            logger.warning("agent session %s could not be swept (%s)", key, type(error).__name__)
    return done


def ring_for_queued(*, now: dt.datetime) -> int:
    """One ring for each session that waits, as far as a pool can use them."""
    waiting = AgentSession.objects.filter(state=State.QUEUED).order_by()
    number = len(waiting.values_list("pk", flat=True)[:_MOST_RINGS])
    for _ in range(number):
        ring()
    return number


def remove_old_sessions(*, now: dt.datetime) -> int:
    """Remove sessions that ended before the current instance and longer ago than is kept (R17); usage stays."""
    days = conf.settings().retention_days
    if not days:
        return 0
    before = min(now - dt.timedelta(days=days), current_instance().opened_at)
    old = AgentSession.objects.filter(finished_at__lt=before).order_by("finished_at").values_list("pk", flat=True)
    keys = list(old[:_RETENTION_BATCH])
    if keys:
        with transaction.atomic():
            AgentSession.objects.filter(pk__in=keys).delete()
    return len(keys)
