"""Tools that ask the client's human: ``interact`` (H4, H5)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from apps.core.caller import Caller
from apps.core.errors import ErrorCode, LoomError
from apps.mcp import forms
from apps.mcp.elicitation import Action, Ask, Given, Interaction
from apps.mcp.protocol import SERVER_INFO
from apps.runs import contracts
from apps.runs.endpoints import INTERACT, answer_interaction

_PRESENTED = {Action.DECLINE: "declined", Action.CANCEL: "cancelled", Action.FAILED: "unsupported"}


def _interact(caller: Caller, arguments: Any, given: Given | None) -> contracts.Interaction | Ask:
    """Show the Action until it is answered or put away; only an answer is admitted.

    What is known under the operationId, and what can be answered no more, never comes as far as a form.
    """
    seen = INTERACT.call(caller, arguments)
    if seen.action is None:
        return seen
    if given is None:
        return _form(caller, seen)
    if given.action is not Action.ACCEPT:
        return seen.model_copy(update={"presented": _PRESENTED[given.action]})
    try:
        answer = forms.answer_of(seen.action.kind, seen.action.request, given.content)
        return answer_interaction(caller, contracts.AnswerAsk.parse({**arguments, "answer": answer}))
    except forms.NotAnAnswer as incomplete:
        return _form(caller, seen, hint=str(incomplete))
    except LoomError as refusal:
        if refusal.code is not ErrorCode.INVALID_REQUEST:
            raise
        return _form(caller, seen, hint=refusal.issues[0].suggestion)


def _form(caller: Caller, seen: contracts.Interaction, *, hint: str | None = None) -> Ask:
    assert seen.action is not None
    assert seen.run is not None
    heading = f"{SERVER_INFO['title']} · {seen.run.loom_name}" if caller.profile == "codex" else None
    form = forms.form_of(seen.action.kind, seen.action.request, heading=heading, hint=hint)
    return Ask(seen.action.id, form.message, form.fields, form.required)


#: Name of a Tool → how it is run for a client that shows forms.
INTERACTIONS: Mapping[str, Interaction] = MappingProxyType({INTERACT.name: _interact})
