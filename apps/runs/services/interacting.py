"""Putting an Action to a human in a form of their client: what goes before it and what comes after (H4, H5).

Showing the form is the face's.  Nothing is stored until the answer is there.
"""

from __future__ import annotations

import datetime as dt
import uuid

from apps.core.caller import Caller
from apps.core.errors import not_found
from apps.ledger.contracts import Receipt
from apps.ledger.domain.receipts import OperationKind
from apps.ledger.selectors.instances import require_current
from apps.ledger.services.operations import find_known
from apps.runs.contracts import AnswerAsk, Interact, RunView
from apps.runs.domain.admitting import decide_answer
from apps.runs.models import Action, Run
from apps.runs.selectors.runs import view_of
from apps.runs.services.changes import facts_of
from apps.runs.services.steering import answer_ask, who_answered

_KIND = OperationKind.INTERACT


def find_receipt(*, caller: Caller, request: Interact) -> Receipt | None:
    """The receipt of an answer that came in under this identity before; the form is not shown again (O3, H4)."""
    receipt = find_known(caller=caller, kind=_KIND, request=request)
    if receipt is not None and receipt.status == "accepted":
        # The answer that was accepted is kept with its Action, so the parameters are whole again and compared.
        actions = Action.objects.filter(
            pk=uuid.UUID(request.action_id), run_id=uuid.UUID(request.run_id), run__project_id=caller.project_id
        )
        given = actions.values_list("answer", flat=True).first()
        find_known(caller=caller, kind=_KIND, request=request, parameters={**request.parameters(), "answer": given})
    return receipt


def require_waiting(*, caller: Caller, request: Interact) -> RunView:
    """The Run that waits for this Action; ``NOT_FOUND`` or ``CONFLICT``, with nothing stored (H3, H4)."""
    instance = require_current(request.service_instance_id)
    rows = Run.objects.select_related("project", "pending_action")
    run = rows.filter(pk=uuid.UUID(request.run_id), project_id=caller.project_id).first()
    if run is None:
        raise not_found("Run", request.run_id)
    pending = str(run.pending_action_id) if run.pending_action_id else None
    decide_answer(
        facts_of(run, current_instance=instance.id),
        pending_action=pending,
        action_id=request.action_id,
        answered=who_answered(run, request.action_id),
    )
    return view_of(run, current=instance.id)


def interact(*, caller: Caller, request: AnswerAsk, now: dt.datetime) -> Receipt:
    """Admit what the human answered in the form: an Operation of its own kind, given by a person (H4, H6)."""
    return answer_ask(caller=caller, request=request, via="native", kind=_KIND, now=now)
