"""A worker's hold on a session: taken, renewed, asked for before each request (B9)."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Collection
from dataclasses import asdict, dataclass
from typing import Any

from django.db import transaction
from django.db.models import DateTimeField, QuerySet, Value
from django.db.models.functions import Coalesce

from apps.access.selectors.projects import credential
from apps.access.services.credentials import is_live
from apps.agent_sessions.domain.programs import Program
from apps.agent_sessions.domain.sessions import State
from apps.agent_sessions.models import AgentSession
from apps.agent_sessions.runtime.ended import Usage
from apps.agent_sessions.services.ending import fail
from apps.agent_sessions.services.programs import program_from
from apps.agent_sessions.services.signing import is_genuine
from apps.core import conf
from apps.core.database import database_now, database_time_after, for_update, lock_first, lock_name
from apps.ledger.selectors.instances import hold_current
from apps.runs.services.leasing import InstanceEnded


@dataclass(frozen=True, slots=True)
class Leased:
    """A session in a worker's hands, and the fence that its result lands under."""

    session_id: uuid.UUID
    project_id: uuid.UUID
    project_name: str
    credential_id: uuid.UUID | None
    fence: int
    model: str
    agent: str
    release_digest: str
    program: Program
    input: Any


def take_lease(*, owner: str, instance_id: uuid.UUID, now: dt.datetime) -> Leased | None:
    """The session that has waited longest; ``None`` when none waits, or as many run as may.

    Raises :class:`InstanceEnded` when ``instance_id`` is not the current instance any more.
    """
    while True:
        with transaction.atomic():
            if not hold_current(instance_id):
                raise InstanceEnded
            lock_name("agent_sessions")
            most = conf.settings().agents_running
            running = AgentSession.objects.filter(state=State.RUNNING).order_by().values_list("pk", flat=True)
            if len(running[:most]) >= most:
                return None
            queued = AgentSession.objects.filter(state=State.QUEUED).select_related("project", "credential")
            row = lock_first(queued.order_by("id"), skip_locked=True)
            if row is None:
                return None
            if row.credential is not None and not is_live(row.credential, now):
                fail(row, code="forbidden", reason="credential_revoked", message=REVOKED, now=now)
                continue
            if not is_genuine(row):
                fail(row, code="internal", reason="session_invalid", message=_NOT_GENUINE, now=now)
                continue
            row.state = State.RUNNING
            row.attempts += 1
            row.fence += 1
            row.lease_owner = owner
            row.lease_expires_at = database_time_after(conf.settings().lease_seconds)
            row.started_at = row.started_at or now
            row.save(update_fields=["state", "attempts", "fence", "lease_owner", "lease_expires_at", "started_at"])
        return Leased(
            session_id=row.pk,
            project_id=row.project_id,
            project_name=row.project.name,
            credential_id=row.credential_id,
            fence=row.fence,
            model=row.model,
            agent=row.agent,
            release_digest=row.release_digest,
            program=program_from(row.program),
            input=row.input,
        )


REVOKED = "The credential that started this agent was revoked or has expired. Start it again with another one."
_NOT_GENUINE = "What was stored of this agent is not what was started, so it was not run. Start it again."


def held(leased: Leased) -> QuerySet[AgentSession]:
    """The row, for as long as the lease is this worker's."""
    return AgentSession.objects.filter(pk=leased.session_id, fence=leased.fence, state=State.RUNNING)


def goes_on(leased: Leased) -> bool:
    """Whether the session is still this worker's, and nobody asked to end it."""
    return held(leased).filter(cancel_requested_at=None).exists()


def is_revoked(leased: Leased, now: dt.datetime) -> bool:
    """Whether the credential that started it has ended (K12)."""
    if leased.credential_id is None:
        return False
    found = credential(leased.credential_id)
    return found is None or not is_live(found, now)


def note_request(leased: Leased, *, usage: Usage, now: dt.datetime) -> bool:
    """Store that a model request goes out now; False when it must not.

    ``usage`` is what was used before it: the request counts from now on, for this worker may be lost with it.
    What is stored here decides that then nothing is sent again.
    """
    with transaction.atomic():
        rows = held(leased).filter(cancel_requested_at=None, lease_expires_at__gt=database_now())
        sent = Coalesce("called_at", Value(now, output_field=DateTimeField()))
        return rows.update(called_at=sent, requests=usage.requests + 1) == 1


def note_usage(leased: Leased, usage: Usage) -> None:
    """Store what was used so far, in place of what was stored before: nothing is added twice (B3)."""
    with transaction.atomic():
        held(leased).update(**asdict(usage))


def renew_leases(owners: Collection[str]) -> int:
    """Keep the leases of live owners; an expired one is not brought back.  Returns how many were kept."""
    with transaction.atomic():
        live = AgentSession.objects.filter(
            state=State.RUNNING, lease_owner__in=list(owners), lease_expires_at__gt=database_now()
        )
        # In the order in which the opening of an instance locks them: an UPDATE alone has none.
        ids = list(for_update(live.order_by("id")).values_list("id", flat=True))
        return AgentSession.objects.filter(id__in=ids).update(
            lease_expires_at=database_time_after(conf.settings().lease_seconds)
        )
