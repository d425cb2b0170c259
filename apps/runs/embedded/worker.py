"""A Celery worker inside the web process: its consumer in one background thread, its tasks in a thread pool.

It is `celery.worker.WorkController`, not `celery.apps.worker.Worker`, because the latter takes over signal
handlers and logging, which belong to the web server here.
"""

from __future__ import annotations

import logging
import threading
from typing import Any, ClassVar

import celery
from celery.worker import WorkController, state

from apps.runs.embedded import transport

START_SECONDS = 30.0

logger = logging.getLogger(__name__)


class EmbeddedWorker:
    """Starts and stops the worker of this process. Celery keeps its stop flag per process: one at a time."""

    _latest: ClassVar[threading.Thread | None] = None

    def __init__(self, app: celery.Celery, *, threads: int) -> None:
        self._app = app
        self._threads = threads
        self._thread: threading.Thread | None = None
        self._started = threading.Event()
        self._consuming = False
        self._error: Exception | None = None

    @property
    def running(self) -> bool:
        """Whether this worker is consuming; False too when it died by itself, which a health check must see."""
        return self._consuming

    def start(self) -> None:
        """Start the worker and return when it is consuming (about 0.1 s); raise when it does not get there.

        Raises `ValueError` for an app with another broker, as only the embedded one can be woken to stop.
        """
        with self._app.connection_for_read() as connection:
            if connection.transport.driver_type != transport.ALIAS:
                raise ValueError(f"the embedded worker needs the broker {transport.ALIAS}://")
        if EmbeddedWorker._latest is not None and EmbeddedWorker._latest.is_alive():
            raise RuntimeError("an embedded worker of this process has not ended")
        self._forget()
        state.reset_state()
        # Pool threads find tasks through the process-wide default app, not through the worker.
        self._app.set_default()
        self._started.clear()
        self._error = None
        # A daemon, so that it does not keep the interpreter alive; the pool's threads still do.
        self._thread = threading.Thread(target=self._run, name="embedded-worker", daemon=True)
        EmbeddedWorker._latest = self._thread
        self._thread.start()
        if not self._started.wait(START_SECONDS) or not self._consuming:
            self.stop(0)
            raise RuntimeError("the embedded worker did not start") from self._error

    def stop(self, grace: float) -> bool:
        """Stop consuming and wait up to `grace` seconds for running tasks; tell whether the worker has ended.

        Messages delivered but not begun are dropped. After False only `os._exit` ends the process in time:
        threads of `concurrent.futures` are not daemons. It may also be called again, to wait longer.
        """
        thread = self._thread
        if thread is None or not thread.is_alive():
            return True
        # In this order: a closed transport without the flag would make the worker's loop spin.
        state.should_stop = 0
        transport.close_all()
        thread.join(max(0.0, grace))
        if thread.is_alive():
            return False
        self._forget()
        return True

    @staticmethod
    def _forget() -> None:
        """Undo the process-wide marks of a stop, so that a next worker does not end at once."""
        state.should_stop = None
        state.should_terminate = None
        transport.reopen()

    def _on_ready(self, _consumer: Any) -> None:
        self._consuming = True
        self._started.set()

    def _run(self) -> None:
        """Build and run the worker. Built here too, as Django's fixup closes the building thread's connections."""
        try:
            WorkController(
                app=self._app,
                pool="threads",
                concurrency=self._threads,
                prefetch_multiplier=1,
                ready_callback=self._on_ready,
                task_events=False,
                without_mingle=True,
                without_gossip=True,
                without_heartbeat=True,
                disable_rate_limits=True,
            ).start()
        except Exception as error:
            logger.exception("the embedded worker failed")
            self._error = error
        finally:
            self._consuming = False
            self._started.set()
