"""Background agents: start one, poll it, end it (B2, B3, B9)."""

from __future__ import annotations

from apps.agent_sessions.contracts.errors import ENVELOPE
from apps.agent_sessions.contracts.sessions import (
    AgentStarted,
    AgentStatus,
    AgentStatusRequest,
    CancelAgentRequest,
    RunAgentRequest,
)
from apps.agent_sessions.selectors import sessions
from apps.agent_sessions.services import cancelling, starting
from apps.core import clock
from apps.core.caller import Caller
from apps.core.endpoints import Endpoint, Kind, Route, register


def _run(caller: Caller, request: RunAgentRequest) -> AgentStarted:
    return starting.run_agent(caller=caller, request=request, now=clock.now())


def _status(caller: Caller, request: AgentStatusRequest) -> AgentStatus:
    return sessions.get_status(
        sessions.find_proven(caller=caller, id=request.id, session_secret=request.session_secret)
    )


def _cancel(caller: Caller, request: CancelAgentRequest) -> AgentStatus:
    return cancelling.cancel_agent(caller=caller, request=request, now=clock.now())


RUN_AGENT = register(
    Endpoint(
        name="run_agent",
        title="Start a background agent",
        description=(
            "Start an agent that works in the background on a `model` of list_models. Say what to do in "
            "`instructions`, or take a Loom's agent with `agent`. Keep `id` and `session_secret`: the secret is in "
            "this one answer, and both are needed to poll agent_status. After a lost answer start another one; the "
            "first ends by itself. Errors: with error.validation, correct every issue before the next try; with "
            "error.recovery, show your human its setup_url."
        ),
        input=RunAgentRequest,
        output=AgentStarted,
        handler=_run,
        kind=Kind.SESSION,
        route=Route("POST", "/agents"),
        open_world=True,
        idempotent=False,
        error_form=ENVELOPE,
    )
)
AGENT_STATUS = register(
    Endpoint(
        name="agent_status",
        title="Poll a background agent",
        description=(
            "Read how a background agent stands, with the `id` and the one-time `session_secret` that run_agent gave. "
            "Poll every few seconds until `state` is succeeded, failed or cancelled. `output` is there once it "
            "succeeded, `error` when it failed; `usage` grows while it runs."
        ),
        input=AgentStatusRequest,
        output=AgentStatus,
        handler=_status,
        kind=Kind.READ,
        # With a body, for a secret in an address would be kept by logs and histories.
        route=Route("POST", "/agents/{id}/status"),
        error_form=ENVELOPE,
    )
)
CANCEL_AGENT = register(
    Endpoint(
        name="cancel_agent",
        title="Cancel a background agent",
        description=(
            "End a background agent: at once while it is queued, else before its next request to the model, so poll "
            "agent_status until `state` is cancelled. What it did already stays done. One that has ended stays as it "
            "is. Returns what agent_status returns."
        ),
        input=CancelAgentRequest,
        output=AgentStatus,
        handler=_cancel,
        kind=Kind.SESSION,
        route=Route("POST", "/agents/{id}/cancel"),
        destructive=True,
        error_form=ENVELOPE,
    )
)
