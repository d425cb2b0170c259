"""Claiming an agent call, and proving to own it (A2, K11)."""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
import uuid

from django.db import transaction
from django.utils.crypto import constant_time_compare, salted_hmac

from apps.agents import contracts
from apps.agents.domain.deciding import Decision, decide_claim, require_owner
from apps.agents.models import AgentCall
from apps.agents.selectors.calls import facts_of, task_of
from apps.agents.services.closing import find_punctual_call
from apps.agents.services.holding import hold_call, hold_instance
from apps.core.caller import Caller
from apps.runs.services import agent_steps


def claim_agent_call(*, caller: Caller, request: contracts.ClaimAgentCall, now: dt.datetime) -> contracts.Claimed:
    """Give the call to its first claimer; the same claim again gets the same token (A2)."""
    task = task_of(find_punctual_call(caller=caller, reference=request, now=now))
    digest = hashlib.sha256(request.claim_id.encode()).hexdigest()
    with transaction.atomic():
        hold_instance()
        held, call = hold_call(caller=caller, reference=request)
        same = call.claim_digest == digest and call.claimed_by_id == caller.credential_id
        if decide_claim(facts_of(call), same_claim=same) is Decision.APPLY:
            assert held is not None, "an open call is what its Run waits for"
            call.claim_digest, call.claimed_by_id = digest, caller.credential_id
            call.claimed_at = held.moment(now)
            call.save(update_fields=["claim_digest", "claimed_by", "claimed_at"])
            agent_steps.claimed(held, principal=caller.principal, now=now)
    assert task is not None, "the call was open, so there is a task"
    return contracts.Claimed(task=task, owner_token=_token(call.pk, digest, caller.credential_id))


def require_ownership(call: AgentCall, *, caller: Caller, owner_token: str) -> None:
    """``FORBIDDEN`` unless the token is this call's, sent under the credential that claimed it."""
    mine = _token(call.pk, call.claim_digest, caller.credential_id)
    fits = constant_time_compare(mine, owner_token) and bool(call.claim_digest)
    require_owner(facts_of(call), token_fits=fits and call.claimed_by_id == caller.credential_id)


def _token(call_id: uuid.UUID, claim_digest: str, credential_id: uuid.UUID | None) -> str:
    """Derived, so that it is stored nowhere; in the form that redaction knows (E6)."""
    mac = salted_hmac("loomsvc.agents.owner", f"{call_id}/{claim_digest}/{credential_id}", algorithm="sha256")
    secret = base64.urlsafe_b64encode(mac.digest()).decode().rstrip("=")
    return f"loom_owner_{call_id.hex}_{secret}"
