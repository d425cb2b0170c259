"""Ending a call by its agent: the final output, or giving up (A8, A9)."""

from __future__ import annotations

import datetime as dt

from django.db import transaction

from apps.agents import contracts
from apps.agents.domain.deciding import Decision, decide_closing, require_no_running_tool
from apps.agents.domain.statuses import ClosedAs
from apps.agents.models import AgentCall
from apps.agents.selectors.calls import facts_of, task_in
from apps.agents.services.claiming import require_ownership
from apps.agents.services.closing import close_call, find_punctual_call
from apps.agents.services.holding import hold_call, hold_instance
from apps.core import conf, json_text
from apps.core.caller import Caller
from apps.core.errors import Issue, invalid_request
from apps.core.redaction import mask_credentials
from apps.looms.loaded import LoadedLoom
from apps.looms.services.releases import load_release
from apps.runs.domain.facts import RunError
from apps.runs.domain.statuses import RunErrorCode
from apps.runs.services.agent_steps import complete_agent_step, fail_agent_step


def complete_agent_call(*, caller: Caller, request: contracts.CompleteAgentCall, now: dt.datetime) -> contracts.Closed:
    """Accept the Step's final output: it is saved and routed, or the Run pauses, in one transaction (A8)."""
    digest = json_text.digest(request.result)
    call = _owned(caller, request, now)
    if decide_closing(facts_of(call), as_=ClosedAs.COMPLETED, digest=digest) is Decision.REPLAY:
        return _accepted(call)
    loom = load_release(call.run.release_digest)
    outcome = _outcome_of(loom, call, request.result)
    with transaction.atomic():
        instance_id = hold_instance()
        held, call = hold_call(caller=caller, reference=request)
        facts = facts_of(call)
        if decide_closing(facts, as_=ClosedAs.COMPLETED, digest=digest) is Decision.REPLAY:
            return _accepted(call)
        require_no_running_tool(facts)
        assert held is not None, "an open call is what its Run waits for"
        events = close_call(call, ClosedAs.COMPLETED, now=held.moment(now), digest=digest)
        complete_agent_step(
            held,
            loom,
            result=request.result,
            outcome=outcome,
            reads=call.reads,
            events=events,
            now=now,
            instance_id=instance_id,
        )
    return _accepted(call)


def fail_agent_call(*, caller: Caller, request: contracts.FailAgentCall, now: dt.datetime) -> contracts.Closed:
    """The agent gives up: the Run fails, whatever still runs (A9)."""
    digest = json_text.digest(request.message)
    call = _owned(caller, request, now)
    if decide_closing(facts_of(call), as_=ClosedAs.FAILED, digest=digest) is Decision.REPLAY:
        return _accepted(call)
    error = RunError(RunErrorCode.AGENT_FAILED, mask_credentials(request.message))
    with transaction.atomic():
        instance_id = hold_instance()
        held, call = hold_call(caller=caller, reference=request)
        if decide_closing(facts_of(call), as_=ClosedAs.FAILED, digest=digest) is Decision.REPLAY:
            return _accepted(call)
        assert held is not None, "an open call is what its Run waits for"
        events = close_call(call, ClosedAs.FAILED, now=held.moment(now), digest=digest)
        fail_agent_step(held, error, closed_as=ClosedAs.FAILED, events=events, now=now, instance_id=instance_id)
    return _accepted(call)


def _owned(caller: Caller, request: contracts.OwnedReference, now: dt.datetime) -> AgentCall:
    call = find_punctual_call(caller=caller, reference=request, now=now)
    require_ownership(call, caller=caller, owner_token=request.owner_token)
    return call


def _outcome_of(loom: LoadedLoom, call: AgentCall, result: contracts.JsonObject) -> str:
    """The output schema first, then the Step's routes; pointers start at ``/result``."""
    outcome, issues = task_in(loom, call).read_output(result, max_bytes=conf.settings().max_value_bytes)
    routes = loom.graph.step(call.stage, call.step).on
    if not issues and (type(outcome) is not str or outcome not in routes):
        issues = [Issue("choice", "/outcome", f"Use an outcome that this Step routes: {', '.join(routes)}.")]
    if issues:
        raise invalid_request(
            "the task's outputSchema", [Issue(i.code, f"/result{i.path}", i.suggestion) for i in issues]
        )
    return str(outcome)


def _accepted(call: AgentCall) -> contracts.Closed:
    return contracts.Closed(
        receipt=contracts.ClosingReceipt(run_id=str(call.run_id), call_id=str(call.pk), status="accepted")
    )
