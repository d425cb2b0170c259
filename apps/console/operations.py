"""Writes: the same Operations as over MCP, made by an operator (O1, O10).

The operationId is made when the form is rendered, so sending a form twice is one Operation.
"""

from __future__ import annotations

import uuid
from typing import Any

from django.http import QueryDict

from apps.console.permissions import Operator
from apps.core.endpoints import Endpoint
from apps.core.errors import ErrorCode, Issue, LoomError, invalid_request
from apps.ledger.contracts import FoundOperation
from apps.ledger.endpoints import GET_OPERATION
from apps.runs.contracts import OperationResult

#: What a form is told when the service was started anew after it had been rendered.
_RESTARTED = "The service was started anew after this page was made. Nothing was done: look again, then decide anew."
_AGAIN = "Load the page again and use its form."


def identity_in(form: QueryDict) -> dict[str, str]:
    """The identity that a form carries."""
    return {name: form.get(name, "") for name in ("operationId", "serviceInstanceId")}


def submit(
    endpoint: Endpoint[Any, Any], operator: Operator, project_id: uuid.UUID, identity: dict[str, str], **arguments: Any
) -> OperationResult:
    """Have ``endpoint`` do what a form asks; raises what it refuses, in words for a person."""
    try:
        result: OperationResult = endpoint.call(operator.caller(project_id), {**identity, **arguments})
    except LoomError as error:
        if error.code is ErrorCode.INSTANCE_CHANGED:
            raise LoomError(error.code, _RESTARTED) from None
        raise
    return result


def number_in(form: QueryDict, name: str) -> int:
    """A whole number that the form carries; ``INVALID_REQUEST`` when it does not."""
    text = form.get(name, "")
    if not (text.isascii() and text.isdigit() and len(text) < 16):
        raise invalid_request("Form", [Issue("type", f"/{name}", _AGAIN)])
    return int(text)


def identity_of_each(form: QueryDict, run_id: str) -> dict[str, str]:
    """The identity for one Run of a form about many: made of the form's own, so the same at each sending."""
    try:
        base = uuid.UUID(form.get("operationId", ""))
    except ValueError:
        raise invalid_request("Form", [Issue("type", "/operationId", _AGAIN)]) from None
    return {**identity_in(form), "operationId": str(uuid.uuid5(base, run_id))}


def is_known(operator: Operator, project_id: uuid.UUID, identity: dict[str, str]) -> bool:
    """Whether something came in under this identity before."""
    found: FoundOperation = GET_OPERATION.call(operator.caller(project_id), identity)
    return found.status == "found"
