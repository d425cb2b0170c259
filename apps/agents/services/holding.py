"""Locks in the order of everybody: instance, Run, agent call."""

from __future__ import annotations

import uuid

from apps.agents import contracts
from apps.agents.models import AgentCall
from apps.agents.selectors.calls import call_rows
from apps.core.caller import Caller
from apps.core.database import for_update
from apps.core.errors import ErrorCode, LoomError, not_found
from apps.ledger.selectors.instances import current_instance, hold_current
from apps.runs.services.agent_steps import Held, hold_waiting


def hold_instance() -> uuid.UUID:
    """The current instance, until the transaction ends: none is opened meanwhile, so no call is interrupted."""
    instance_id = current_instance().id
    if not hold_current(instance_id):
        raise LoomError(ErrorCode.UNAVAILABLE, "The service is being restarted; read `status` and try again.")
    return instance_id


def hold_call(*, caller: Caller, reference: contracts.TaskReference) -> tuple[Held | None, AgentCall]:
    """The call, locked, and its Run while it still waits for this call."""
    run_id = uuid.UUID(reference.run_id)
    held = hold_waiting(run_id)
    call = for_update(call_rows(caller=caller, reference=reference)).first()
    if call is None:
        raise not_found("agent call", reference.call_id)
    return (None if call.closed_as else held), call


def hold_open_call(call_id: uuid.UUID, run_id: uuid.UUID) -> tuple[Held, AgentCall] | None:
    """An open call and its Run, both locked; ``None`` when it has closed."""
    held = hold_waiting(run_id)
    call = for_update(AgentCall.objects.filter(pk=call_id, closed_as="")).first()
    return None if held is None or call is None else (held, call)
