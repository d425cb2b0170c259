"""Which lifetime of the service this is."""

from __future__ import annotations

import uuid

from django.db.models import Subquery

from apps.core.database import lock_shared
from apps.core.errors import ErrorCode, LoomError
from apps.core.prepared import PreparedRead
from apps.ledger.domain.instances import Instance
from apps.ledger.models import ServiceInstance

_CURRENT = PreparedRead(ServiceInstance, key=["current"])


def find_current() -> Instance | None:
    """The open instance, if one has been opened."""
    row = _CURRENT.first(current=True)
    return None if row is None else Instance(row.pk, row.opened_at, row.version)


def is_current(instance_id: uuid.UUID) -> bool:
    """Whether ``instance_id`` is still the open instance."""
    return ServiceInstance.objects.filter(pk=instance_id, current=True).exists()


def current_instance() -> Instance:
    """The open instance; ``UNAVAILABLE`` when none has been opened yet."""
    instance = find_current()
    if instance is None:
        raise _not_open()
    return instance


def current_id() -> Subquery:
    """The open instance's id as a part of another read: ``None`` when none has been opened yet."""
    return Subquery(ServiceInstance.objects.filter(current=True).order_by().values("pk")[:1])


def require_open(found: uuid.UUID | None) -> uuid.UUID:
    """What :func:`current_id` has read; ``UNAVAILABLE`` when none has been opened yet."""
    if found is None:
        raise _not_open()
    return found


def _not_open() -> LoomError:
    return LoomError(
        ErrorCode.UNAVAILABLE, "No service instance is open yet; the operator runs `loomsvc instance_open`."
    )


def hold_current(instance_id: uuid.UUID) -> bool:
    """Inside a transaction: True, and it stays so until the end, when ``instance_id`` is current."""
    return lock_shared(ServiceInstance.objects.filter(pk=instance_id, current=True))


def require_current(asked: str) -> Instance:
    """The open instance if it is the one the client knows, else ``INSTANCE_CHANGED`` (O2)."""
    instance = current_instance()
    if str(instance.id) != asked:
        raise instance_changed(str(instance.id))
    return instance


def instance_changed(current: str) -> LoomError:
    """The refusal for a request made to another lifetime of the service."""
    return LoomError(
        ErrorCode.INSTANCE_CHANGED,
        "The service was restarted since you read its instance. Read `status`, look with `find_run` for what your "
        "earlier operations did, and never replay one.",
        details={"currentServiceInstanceId": current},
    )
