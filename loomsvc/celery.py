"""The Celery application: the bell that wakes workers.  ``celery -A loomsvc worker`` scales out."""

from __future__ import annotations

import os
import signal
from collections.abc import Collection
from typing import Any

from celery import Celery
from celery.signals import worker_ready, worker_shutdown

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "loomsvc.settings.development")

from apps.runs.embedded import transport

transport.register()

app = Celery("loomsvc")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
app.set_default()


@worker_ready.connect  # type: ignore[untyped-decorator]
def _start_pulse(sender: Any, **_: Any) -> None:
    """A scaled-out worker begins to beat once its pool stands; an embedded one is started by ``loomsvc up``."""
    from apps.ledger.selectors.instances import current_instance
    from apps.runs.services import worker
    from apps.runs.services.pulse import Pulse

    pool = sender.controller.pool

    def owners() -> Collection[str]:
        return [worker.owner(), *(worker.child_owner(pid) for pid in _live_children(pool))]

    def ended() -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    global _pulse
    _pulse = Pulse(instance_id=current_instance().id, owners=owners, on_ended=ended)
    _pulse.start()


_pulse: Any = None


@worker_shutdown.connect  # type: ignore[untyped-decorator]
def _stop_pulse(**_: Any) -> None:
    if _pulse is not None:
        _pulse.stop()


def _live_children(pool: Any) -> list[int]:
    """Pids of prefork children that live; none for a pool of threads."""
    processes = getattr(getattr(pool, "_pool", None), "_pool", None) or []
    return [process.pid for process in processes if hasattr(process, "exitcode") and process.exitcode is None]
