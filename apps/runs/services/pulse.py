"""A worker's pulse: renews the leases of whoever is alive, and notices a new service instance."""

from __future__ import annotations

import logging
import os
import threading
import time
import uuid
from collections.abc import Callable, Collection

from django.db import connection

from apps.core import clock, conf
from apps.ledger.selectors.instances import is_current
from apps.runs.services.leasing import renew_leases
from apps.runs.services.sweeping import sweep

logger = logging.getLogger("loomsvc.pulse")

#: Held while the pulse has a connection open, so that no child is forked with a copy of its socket (FR-G3).
_no_fork = threading.Lock()
os.register_at_fork(before=_no_fork.acquire, after_in_parent=_no_fork.release, after_in_child=_no_fork.release)


Renewal = Callable[[Collection[str]], int]
_others: list[Renewal] = []


def also_renew(renew: Renewal) -> None:
    """Have the leases of a higher app renewed for the same owners; called when Django starts."""
    _others.append(renew)


class Pulse(threading.Thread):
    """Beats three times per lease.  ``sweeps`` makes it the sweep of an embedded service as well.

    ``owners`` names those whose Code is alive; ``on_ended`` is called once, when another instance
    was opened.
    """

    def __init__(
        self,
        *,
        instance_id: uuid.UUID,
        owners: Callable[[], Collection[str]],
        on_ended: Callable[[], None],
        sweeps: bool = False,
    ) -> None:
        super().__init__(name="pulse", daemon=True)
        self._instance_id = instance_id
        self._owners = owners
        self._on_ended = on_ended
        self._sweeps = sweeps
        self._stopped = threading.Event()

    def stop(self) -> None:
        """Beat no more."""
        self._stopped.set()

    def run(self) -> None:
        lease = conf.settings().lease_seconds / 3
        interval = min(lease, conf.settings().sweep_seconds) if self._sweeps else lease
        next_sweep = time.monotonic()
        while not self._stopped.is_set():
            try:
                with _no_fork:
                    try:
                        ended = self._beat()
                        # After the renewal: a long hold of the interpreter must not look like a lost worker.
                        if self._sweeps and not ended and time.monotonic() >= next_sweep:
                            sweep(now=clock.now())
                            next_sweep = time.monotonic() + conf.settings().sweep_seconds
                    finally:
                        # A connection that broke would fail every later beat too.
                        connection.close()
            except Exception as error:
                logger.warning("the pulse could not reach the ledger (%s)", type(error).__name__)
                ended = False
            if ended:
                self._on_ended()
                return
            self._stopped.wait(interval)

    def _beat(self) -> bool:
        owners = self._owners()
        renew_leases(owners)
        for renew in _others:
            renew(owners)
        return not is_current(self._instance_id)
