"""The bell: tells workers that something is due.  It never carries what is due.

Ringing happens on a thread of its own, so that a slow or absent broker delays no admission (F9); a
ring that is lost costs no more than one interval of the sweep.
"""

from __future__ import annotations

import heapq
import logging
import os
import threading
import time

from django.db import transaction

from apps.core.redaction import redact_text

logger = logging.getLogger("loomsvc.bell")

TASK_NAME = "runs.work"
#: More rings than this change nothing: each wakes a worker that goes on until nothing is due.
_MOST_WAITING = 64
#: Later ones are left to the sweep.
_LONGEST_TIMER_SECONDS = 3600.0
_MOST_TIMERS = 10_000


class Bell:
    """Rings for one task that wait to be sent, at once or at a time, and the daemon thread that sends them."""

    def __init__(self, task: str) -> None:
        self._task = task
        self._wake = threading.Condition()
        self._waiting = 0
        self._timers: list[float] = []
        self._process = 0

    def ring(self, after: float = 0.0) -> None:
        """Ask for one wake-up message in ``after`` seconds; returns at once."""
        with self._wake:
            if self._process != os.getpid():
                self._process = os.getpid()
                threading.Thread(target=self._send_for_ever, name="bell", daemon=True).start()
            if after <= 0:
                self._waiting = min(self._waiting + 1, _MOST_WAITING)
            elif after <= _LONGEST_TIMER_SECONDS and len(self._timers) < _MOST_TIMERS:
                heapq.heappush(self._timers, time.monotonic() + after)
            self._wake.notify()

    def _send_for_ever(self) -> None:
        while True:
            with self._wake:
                while not self._take():
                    self._wake.wait(self._timers[0] - time.monotonic() if self._timers else None)
            self._send()

    def _take(self) -> bool:
        if self._timers and self._timers[0] <= time.monotonic():
            heapq.heappop(self._timers)
            return True
        if self._waiting:
            self._waiting -= 1
            return True
        return False

    def _send(self) -> None:
        from celery import current_app

        try:
            current_app.send_task(self._task, retry=False, ignore_result=True)
        except Exception as error:
            with self._wake:
                self._waiting = 0
            logger.warning("the broker could not be reached (%s); the sweep will ring", redact_text(repr(error)))


_bell = Bell(TASK_NAME)


def ring(after: float = 0.0) -> None:
    """Wake a worker now, or in ``after`` seconds."""
    _bell.ring(after)


def ring_on_commit(after: float = 0.0) -> None:
    """Wake a worker once the current transaction is committed (FR-A21)."""
    transaction.on_commit(lambda: ring(after))
