"""What a worker does when the bell of background agents rings: take one, reason, land (B2, B9)."""

from __future__ import annotations

import functools
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from django.db import close_old_connections, connection, transaction

from apps.agent_sessions.domain.sessions import State, decide_landing
from apps.agent_sessions.runtime.ended import Cancelled, Ended, Failed, Limits, Succeeded, Usage
from apps.agent_sessions.runtime.files import ModelsInvalid
from apps.agent_sessions.runtime.reasoning import reason
from apps.agent_sessions.services.bell import ring
from apps.agent_sessions.services.ending import end, fail, lose
from apps.agent_sessions.services.leasing import (
    REVOKED,
    Leased,
    goes_on,
    held,
    is_revoked,
    note_request,
    note_usage,
    take_lease,
)
from apps.agent_sessions.services.models import access_to, known_models, setup_url
from apps.agent_sessions.services.programs import LoomAgent, agent_in
from apps.agent_sessions.services.tools import LoomTools, StateFailed, own_functions
from apps.core import clock, conf
from apps.core.database import DATABASE_TROUBLE, for_update, surely
from apps.core.errors import LoomError
from apps.core.failpoints import Failpoint, reach
from apps.core.ids import new_id
from apps.looms.services.releases import load_release
from apps.runs.services import worker
from apps.runs.services.leasing import InstanceEnded

logger = logging.getLogger("loomsvc.agent_sessions")

#: What reasoning came to, as a session's state.
_STATES = {Succeeded: State.SUCCEEDED, Failed: State.FAILED, Cancelled: State.CANCELLED}


def work() -> None:
    """Carry out one session, if one is due and there is room for it; then ring for the next."""
    close_old_connections()
    if worker.is_stopping():
        return
    try:
        with worker.turn() as owner:
            leased = take_lease(owner=owner, instance_id=worker.instance(), now=clock.now())
            if leased is None:
                return
            ring()  # another one may have room too
            _carry_out(leased)
        ring()
        worker.replace_after_lost_threads()
    except InstanceEnded:
        logger.warning("the service was started anew; this worker takes nothing more")
    except DATABASE_TROUBLE as error:
        logger.warning("the database could not be reached (%s); the sweep will ring", type(error).__name__)
        connection.close()
        worker.leave_behind()
    except Exception:
        logger.exception("a worker's turn failed")
        connection.close()
        worker.leave_behind()


def _carry_out(leased: Leased) -> None:
    reach(Failpoint.AFTER_CLAIM)
    watch = _Watch(leased)
    try:
        ended = _reason(leased, watch)
    except DATABASE_TROUBLE:
        raise
    except LoomError as error:
        ended = Failed(error.code.value.lower(), "not_started", error.message, watch.usage)
    except (ModelsInvalid, StateFailed) as error:
        ended = Failed("agent_failed", "not_started", str(error), watch.usage)
    except Exception:
        incident = new_id()
        logger.exception("incident %s in agent session %s", incident, leased.session_id)
        message = f"The service failed at this agent; its operator finds the reason under incident {incident}."
        ended = Failed("internal", "incident", message, watch.usage)
    if watch.lost:
        # Not known to be ours any more, or not to be stored: the sweep says what is true.
        raise watch.lost
    if watch.revoked:
        ended = Failed("forbidden", "credential_revoked", REVOKED, ended.usage)
    _land_surely(leased, ended)


@dataclass
class _Watch:
    """The ledger's side of reasoning: nothing is sent that was not stored to be sent."""

    leased: Leased
    usage: Usage = field(default_factory=Usage)
    called: bool = False
    revoked: bool = False
    lost: Exception | None = None

    def before_request(self) -> bool:
        """Store the request; False to stop at this boundary."""
        try:
            self.revoked = is_revoked(self.leased, clock.now())
            # Before its first request a session can still be left to another worker; later it goes on.
            put_back = worker.is_stopping() and not self.called
            allowed = not self.revoked and not put_back and note_request(self.leased, usage=self.usage, now=clock.now())
            self.called = self.called or allowed
        except DATABASE_TROUBLE as error:
            self.lost = error
            allowed = False
        finally:
            # Nothing of the ledger is held while a model thinks, a connection neither.
            connection.close()
        if allowed:
            reach(Failpoint.BEFORE_MODEL_REQUEST)
        return allowed

    def report(self, usage: Usage) -> None:
        self.usage = usage
        try:
            note_usage(self.leased, usage)
        except DATABASE_TROUBLE as error:
            # The next report says the same and more, and so does the landing.
            logger.warning("usage could not be stored just now (%s)", type(error).__name__)
        finally:
            connection.close()

    def goes_on(self) -> bool:
        return goes_on(self.leased)


def _reason(leased: Leased, watch: _Watch) -> Ended:
    catalogue = known_models()
    model = catalogue.find(leased.model)
    if model is None:
        return Failed("unavailable", "unknown_model", f"Model {leased.model} is not there any more.", Usage())
    loom, agent_id, check, functions = None, "", None, own_functions(leased.project_id)
    if leased.release_digest:
        agent = _agent_of(leased)
        task = agent.task
        tools = LoomTools(leased.session_id, leased.project_id, agent, leased.input, watch.goes_on)
        tools.open_state()
        functions = tools.functions()
        loom, agent_id = agent.loom, task.agent_id

        def check(output: Any) -> Any:
            return task.read_output(output, max_bytes=conf.settings().max_value_bytes)[1]

    access = access_to(model, catalogue, project_id=leased.project_id, loom=loom, agent_id=agent_id)
    connection.close()
    return reason(
        leased.program,
        leased.input,
        tools=functions,
        access=access,
        limits=Limits(max_value_bytes=conf.settings().max_value_bytes),
        before_request=watch.before_request,
        report=watch.report,
        check=check,
    )


def _agent_of(leased: Leased) -> LoomAgent:
    """The agent in the Release that it was started with; raises :class:`LoomError` when that does not load."""
    found = agent_in(load_release(leased.release_digest), leased.agent.partition("/")[2])
    assert found is not None, "it was there when it was started, and Releases do not change"
    return found


def _land_surely(leased: Leased, ended: Ended) -> None:
    """Land, trying again while the database is away, until the lease would have run out."""
    surely(functools.partial(_land, leased, ended), seconds=conf.settings().lease_seconds)


def _land(leased: Leased, ended: Ended) -> None:
    """The end, its usage and its output in one transaction, under the fence; late work lands nowhere."""
    now = clock.now()
    with transaction.atomic():
        row = for_update(held(leased)).first()
        if row is None:
            return
        row.requests = ended.usage.requests
        row.input_tokens = ended.usage.input_tokens
        row.output_tokens = ended.usage.output_tokens
        row.tool_calls = ended.usage.tool_calls
        state = decide_landing(_STATES[type(ended)], cancel_requested=row.cancel_requested_at is not None)
        if isinstance(ended, Failed):
            recovery = _recovery(leased, ended.recovery)
            fail(row, code=ended.code, reason=ended.reason, message=ended.message, now=now, recovery=recovery)
        elif state is None:
            lose(row, now=now)
        else:
            end(row, state, now=now, output=ended.output if isinstance(ended, Succeeded) else None)
        reach(Failpoint.BEFORE_COMMIT)


def _recovery(leased: Leased, recovery: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The runtime names the provider; whoever reads it needs the page."""
    if recovery is None or "provider" not in recovery:
        return None if recovery is None else dict(recovery)
    return {"action": recovery["action"], "setup_url": setup_url(leased.project_name, recovery["provider"])}
