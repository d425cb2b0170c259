"""The Celery application: the bell that wakes workers.  ``celery -A loomsvc.celery worker`` scales out."""

from __future__ import annotations

import logging
import os
import signal
import time
from collections.abc import Collection
from typing import Any

from celery import Celery
from celery.signals import worker_init, worker_process_init, worker_ready, worker_shutdown, worker_shutting_down

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "loomsvc.settings.development")

from apps.runs.embedded import transport

transport.register()

app = Celery("loomsvc")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
app.set_default()

logger = logging.getLogger("loomsvc.worker")
_pulse: Any = None


@worker_init.connect  # type: ignore[untyped-decorator]
def _bind_to_instance(**_: Any) -> None:
    """Read the service instance before the pool forks: a worker and its children belong to one for life.

    Exits when there is none to be read: whoever supervises the process starts it again.
    """
    from django.db import connection

    from apps.core.database import DATABASE_TROUBLE
    from apps.core.errors import LoomError
    from apps.ledger.selectors.instances import current_instance
    from apps.runs.services import worker

    try:
        worker.begin(current_instance().id)
    except LoomError as error:
        logger.error("%s", error.message)
        raise SystemExit(1) from None
    except DATABASE_TROUBLE as error:
        logger.error("the database could not be reached (%s)", type(error).__name__)
        raise SystemExit(1) from None
    finally:
        connection.close()  # no child may inherit its socket (FR-G3)


@worker_process_init.connect  # type: ignore[untyped-decorator]
def _leave_sockets_of_parent(**_: Any) -> None:
    """A child that replaces a lost one is forked with the parent's connections open; it keeps none (FR-G3)."""
    from apps.runs.services.forking import close_inherited_connections

    close_inherited_connections()


@worker_ready.connect  # type: ignore[untyped-decorator]
def _start_pulse(sender: Any, **_: Any) -> None:
    """A scaled-out worker begins to beat once its pool stands; an embedded one is started by ``loomsvc up``."""
    from apps.core import conf
    from apps.runs.services import worker
    from apps.runs.services.pulse import Pulse

    pool = sender.controller.pool

    def owners() -> Collection[str]:
        return [*worker.owners(), *(worker.child_owner(pid) for pid in _live_children(pool))]

    def ended() -> None:
        logger.warning("the service was started anew; this worker stops")
        os.kill(os.getpid(), signal.SIGTERM)
        # What still runs can land nothing any more, so nobody waits for it for ever.
        time.sleep(conf.settings().lease_seconds)
        os.kill(os.getpid(), signal.SIGKILL)  # takes the pool's children with it

    global _pulse
    _pulse = Pulse(instance_id=worker.instance(), owners=owners, on_ended=ended)
    _pulse.start()


@worker_shutting_down.connect  # type: ignore[untyped-decorator]
def _stop_taking(**_: Any) -> None:
    """Running Steps may end and land; none begins after them, of the same Run or another (F23)."""
    from apps.runs.services import worker

    worker.stop_taking()


@worker_shutdown.connect  # type: ignore[untyped-decorator]
def _stop_pulse(**_: Any) -> None:
    if _pulse is not None:
        _pulse.stop()


def _live_children(pool: Any) -> list[int]:
    """Pids of prefork children that live; none for a pool of threads."""
    processes = getattr(getattr(pool, "_pool", None), "_pool", None) or []
    return [process.pid for process in processes if hasattr(process, "exitcode") and process.exitcode is None]
