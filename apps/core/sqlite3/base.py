"""SQLite for a process with many threads: one writer at a time, in the order of arrival.

SQLite's own busy wait is a lottery: under load a writer may lose it for seconds.  Here a thread
queues for a process-wide lock before ``BEGIN IMMEDIATE`` and passes it on after commit, rollback or
close, so nobody starves and nobody meets "database is locked" from a sibling thread.  Reads outside
a transaction never wait.  (``docs/decisions/0006-sqlite-writer-lock.md`` has the measurements.)
"""

from __future__ import annotations

import threading
from collections import deque
from typing import Any

from django.db.backends.sqlite3 import base


class FairLock:
    """A mutex that is handed over in the order in which threads asked for it."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._waiting: deque[threading.Lock] = deque()
        self._held = False

    def acquire(self) -> None:
        with self._guard:
            if not self._held:
                self._held = True
                return
            turn = threading.Lock()
            turn.acquire()
            self._waiting.append(turn)
        turn.acquire()

    def release(self) -> None:
        with self._guard:
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self._held = False


_locks: dict[str, FairLock] = {}
_locks_guard = threading.Lock()


def _lock_for(database: str) -> FairLock:
    with _locks_guard:
        return _locks.setdefault(database, FairLock())


class DatabaseWrapper(base.DatabaseWrapper):
    """Takes the writer lock before BEGIN and gives it back when the transaction is over."""

    _writer: FairLock | None = None

    def _start_transaction_under_autocommit(self) -> None:
        lock = _lock_for(str(self.settings_dict["NAME"]))
        lock.acquire()
        self._writer = lock
        try:
            super()._start_transaction_under_autocommit()  # type: ignore[misc]
        except BaseException:
            self._pass_on()
            raise

    def _commit(self) -> Any:
        try:
            return super()._commit()  # type: ignore[misc]
        finally:
            if self.connection is None or not self.connection.in_transaction:
                self._pass_on()

    def _rollback(self) -> Any:
        try:
            return super()._rollback()  # type: ignore[misc]
        finally:
            self._pass_on()

    def _close(self) -> Any:
        try:
            return super()._close()  # type: ignore[misc]
        finally:
            self._pass_on()

    def _pass_on(self) -> None:
        if self._writer is not None:
            lock, self._writer = self._writer, None
            lock.release()
