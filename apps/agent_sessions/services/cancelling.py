"""Cancelling a background agent (B9)."""

from __future__ import annotations

import datetime as dt

from django.db import transaction

from apps.agent_sessions.contracts.sessions import AgentStatus, CancelAgentRequest
from apps.agent_sessions.domain.sessions import OnCancel, State, decide_cancel
from apps.agent_sessions.models import AgentSession
from apps.agent_sessions.selectors.sessions import find_proven, status_of
from apps.agent_sessions.services.ending import end
from apps.core.caller import Caller
from apps.core.database import for_update


def cancel_agent(*, caller: Caller, request: CancelAgentRequest, now: dt.datetime) -> AgentStatus:
    """End a queued session at once, have a running one end at its next boundary; the session as it then stands."""
    key = find_proven(caller=caller, id=request.id, session_secret=request.session_secret)
    with transaction.atomic():
        row = for_update(AgentSession.objects.filter(pk=key)).get()
        decision = decide_cancel(State(row.state))
        if decision is OnCancel.END:
            end(row, State.CANCELLED, now=now)
        elif decision is OnCancel.REQUEST and row.cancel_requested_at is None:
            row.cancel_requested_at = now
            row.save(update_fields=["cancel_requested_at"])
    return status_of(row)
