"""Which lifetime of the service this is."""

from __future__ import annotations

import uuid

from apps.core.database import lock_shared
from apps.core.errors import ErrorCode, LoomError
from apps.ledger.models import ServiceInstance


def current_instance() -> ServiceInstance:
    """The open instance; ``UNAVAILABLE`` when none has been opened yet."""
    instance = ServiceInstance.objects.filter(current=True).first()
    if instance is None:
        raise LoomError(
            ErrorCode.UNAVAILABLE, "No service instance is open yet; the operator runs `loomsvc instance_open`."
        )
    return instance


def hold_current(instance_id: uuid.UUID) -> bool:
    """Inside a transaction: True, and it stays so until the end, when ``instance_id`` is current."""
    return lock_shared(ServiceInstance.objects.filter(pk=instance_id, current=True))


def require_current(asked: str) -> ServiceInstance:
    """The open instance if it is the one the client knows, else ``INSTANCE_CHANGED`` (O2)."""
    instance = current_instance()
    if str(instance.pk) != asked:
        raise instance_changed(str(instance.pk))
    return instance


def instance_changed(current: str) -> LoomError:
    """The refusal for a request made to another lifetime of the service."""
    return LoomError(
        ErrorCode.INSTANCE_CHANGED,
        "The service was restarted since you read its instance. Read `status`, look with `find_run` for what your "
        "earlier operations did, and never replay one.",
        details={"currentServiceInstanceId": current},
    )
