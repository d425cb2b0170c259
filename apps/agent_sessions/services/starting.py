"""Starting a background agent (B2), within its Project's quota (K24)."""

from __future__ import annotations

import datetime as dt
import math

from django.db import transaction

from apps.agent_sessions.contracts.sessions import AgentStarted, RunAgentRequest
from apps.agent_sessions.domain import proofs
from apps.agent_sessions.domain.programs import Program, canonical_form, program_digest
from apps.agent_sessions.domain.refusals import Reason, Refusal
from apps.agent_sessions.domain.sessions import OPEN, State
from apps.agent_sessions.models import AgentSession
from apps.agent_sessions.runtime.models import Model
from apps.agent_sessions.runtime.tasks import program_of
from apps.agent_sessions.services.bell import ring_on_commit
from apps.agent_sessions.services.models import known_models, require_key, unknown_model
from apps.agent_sessions.services.programs import LoomAgent, find_loom_agent, own_program
from apps.agent_sessions.services.signing import signature_of
from apps.core import conf
from apps.core.caller import Caller
from apps.core.database import lock_name
from apps.core.errors import ErrorCode, Issue, invalid_request
from apps.core.ids import new_id
from apps.ledger.selectors.instances import current_instance

#: Over which the number of starts is bounded.
_WINDOW = dt.timedelta(minutes=1)


def run_agent(*, caller: Caller, request: RunAgentRequest, now: dt.datetime) -> AgentStarted:
    """Queue a session; its id and secret, which is in this answer and nowhere else."""
    current_instance()
    model, agent, program = _checked(request)
    require_key(model, caller)
    proof = proofs.mint()
    row = AgentSession(
        id=new_id(),
        agent_session_id=new_id(),
        project_id=caller.project_id,
        source=caller.source,
        entry=caller.entry,
        principal=caller.principal,
        credential_id=caller.credential_id,
        model=model.id,
        agent=request.agent or "",
        release_digest="" if agent is None else agent.loom.digest,
        program=canonical_form(program),
        program_digest=program_digest(program),
        input=request.input,
        secret_digest=proof.digest,
        state=State.QUEUED,
        created_at=now,
    )
    row.signature = signature_of(row)
    with transaction.atomic():
        lock_name("run_agent", caller.project_id)
        _require_room(caller, now)
        row.save(force_insert=True)
        ring_on_commit()
    return AgentStarted(
        id=str(row.pk),
        session_secret=proof.secret,
        agent_session_id=str(row.agent_session_id),
        state="queued",
        program_digest=row.program_digest,
    )


def _checked(request: RunAgentRequest) -> tuple[Model, LoomAgent | None, Program]:
    """The model, the Loom's agent if one is named, and the program; every issue at once."""
    catalogue = known_models()
    model = catalogue.find(request.model)
    issues = [] if model is not None else [unknown_model(catalogue, request.model)]
    agent: LoomAgent | None = None
    if request.agent is None:
        program, found = own_program(request)
        issues += found
    else:
        named = find_loom_agent(request.agent)
        issues += [
            Issue("conflict", f"/{name}", f"Leave `{name}` out; the agent brings its own.")
            for name in ("instructions", "output_schema")
            if getattr(request, name) is not None
        ]
        if isinstance(named, Issue):
            issues.append(named)
        else:
            agent = named
            program = program_of(agent.task, model=request.model)
            refused = agent.loom.check_input(request.input, max_bytes=conf.settings().max_value_bytes)
            issues += [Issue(issue.code, f"/input{issue.path}", issue.suggestion) for issue in refused]
    if issues:
        raise invalid_request("RunAgentRequest", issues)
    assert model is not None
    return model, agent, program


def _require_room(caller: Caller, now: dt.datetime) -> None:
    settings = conf.settings()
    rows = AgentSession.objects.filter(project_id=caller.project_id)
    still_open = rows.filter(state__in=sorted(OPEN)).order_by().values_list("pk", flat=True)
    if len(still_open[: settings.agents_open]) >= settings.agents_open:
        raise Refusal(
            ErrorCode.CAPACITY,
            Reason.TOO_MANY_ACTIVE,
            f"Project {caller.project_name} has {settings.agents_open} background agents queued or running, and no "
            "more at once. Wait until one has ended, or cancel one.",
        )
    started = list(rows.order_by("-id").values_list("created_at", flat=True)[: settings.agents_per_minute])
    if len(started) == settings.agents_per_minute and started[-1] > now - _WINDOW:
        seconds = max(1, math.ceil((started[-1] + _WINDOW - now).total_seconds()))
        raise Refusal(
            ErrorCode.RATE_LIMITED,
            Reason.TOO_MANY_STARTED,
            f"Project {caller.project_name} starts {settings.agents_per_minute} background agents a minute at most. "
            "Try again later.",
            retry_after=seconds,
        )
