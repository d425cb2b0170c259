"""Opening a service instance: the one moment at which what was in flight is declared interrupted."""

from __future__ import annotations

import datetime as dt
import uuid
from typing import Protocol

from django.db import transaction

from apps.core.database import lock_name
from apps.core.ids import new_id
from apps.ledger.domain.instances import Instance
from apps.ledger.models import ServiceInstance


class InstanceObserver(Protocol):
    """What a higher app does inside the opening transaction (R4, R13)."""

    def __call__(self, *, ended: uuid.UUID, now: dt.datetime) -> None: ...


_observers: list[InstanceObserver] = []


def observe_opening(observer: InstanceObserver) -> None:
    """Register ``observer``; called when Django starts."""
    _observers.append(observer)


def open_instance(*, version: str, now: dt.datetime) -> Instance:
    """End the current instance, if there is one, and open a new one, in one transaction."""
    with transaction.atomic():
        lock_name("open_instance")
        # A full row lock: admissions hold the row shared, so none straddles the change.
        ended = ServiceInstance.objects.select_for_update().filter(current=True).first()
        if ended is not None:
            ended.current = None
            ended.ended_at = now
            ended.save(update_fields=["current", "ended_at"])
        opened = ServiceInstance.objects.create(id=new_id(), opened_at=now, version=version, current=True)
        if ended is not None:
            for observer in _observers:
                observer(ended=ended.pk, now=now)
    return Instance(opened.pk, opened.opened_at, opened.version)
