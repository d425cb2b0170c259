"""Looking up what became of an Operation."""

from __future__ import annotations

import uuid

from apps.core.caller import Caller
from apps.core.endpoints import Endpoint, Kind, Route, register
from apps.ledger.contracts import FoundOperation, GetOperation
from apps.ledger.selectors.instances import current_instance
from apps.ledger.selectors.operations import find_operation, receipt_of


def _get_operation(caller: Caller, request: GetOperation) -> FoundOperation:
    if str(current_instance().id) != request.service_instance_id:
        return FoundOperation(status="instance_changed")
    operation = find_operation(
        project_id=caller.project_id,
        instance_id=uuid.UUID(request.service_instance_id),
        operation_id=uuid.UUID(request.operation_id),
    )
    if operation is None:
        return FoundOperation(status="not_found")
    return FoundOperation(status="found", receipt=receipt_of(operation))


GET_OPERATION = register(
    Endpoint(
        name="get_operation",
        title="Get an operation's receipt",
        description=(
            "The receipt of an operation by its operationId and the serviceInstanceId it was sent to: `found`, "
            "`not_found`, or `instance_changed` after a restart. Ask this after an uncertain response instead of "
            "sending the write again under a new operationId."
        ),
        input=GetOperation,
        output=FoundOperation,
        handler=_get_operation,
        kind=Kind.READ,
        route=Route("GET", "/operations/{serviceInstanceId}/{operationId}"),
    )
)
