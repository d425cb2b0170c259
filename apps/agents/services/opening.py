"""Agent Steps of Runs that an external agent carries out: opened by a worker, then claimed by whoever comes."""

from __future__ import annotations

import datetime as dt
import uuid

from django.db import transaction

from apps.agents.models import AgentCall
from apps.agents.services.closing import cancel_open_call
from apps.core.database import database_time_after
from apps.core.ids import new_id
from apps.ledger.services.events import NewEvent
from apps.looms.domain.graph import LoomGraph
from apps.runs.services.agent_steps import hold_leased, wait_for_agent
from apps.runs.services.leasing import Leased


class ExternalAgents:
    """The executor of Runs whose Agent Steps an MCP client carries out."""

    def not_ready_because(self, project_id: uuid.UUID, graph: LoomGraph | None) -> str | None:
        """It needs nothing configured: agents come by themselves."""
        return None

    def open_call(self, leased: Leased, *, now: dt.datetime) -> None:
        """Open the due Agent Step, in one transaction under the Run's lease; a lost lease opens nothing."""
        where = leased.position
        agent_id = leased.loom.agents[where.stage, where.step].agent_id
        timeout = leased.loom.graph.step(where.stage, where.step).timeout_seconds
        with transaction.atomic():
            held = hold_leased(leased)
            if held is None:
                return
            call = AgentCall.objects.create(
                id=new_id(),
                run_id=leased.run_id,
                stage=where.stage,
                step=where.step,
                visit=where.visit,
                agent_id=agent_id,
                created_at=held.moment(now),
                timeout_seconds=timeout,
                deadline_at=None if timeout is None else database_time_after(timeout),
            )
            wait_for_agent(held, call_id=call.pk, agent_id=agent_id, now=now)

    def cancel_call(self, run_id: uuid.UUID, *, now: dt.datetime) -> list[NewEvent]:
        """The Run, locked, is being cancelled."""
        return cancel_open_call(run_id, now=now)
