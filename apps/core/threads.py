"""The threads that answer: a bounded pool whose database connections are healthy."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

from django.db import close_old_connections

logger = logging.getLogger("loomsvc.requests")

T = TypeVar("T")

#: For requests that are answered at once, and for those that may take as long as an author's code, a model or a web
#: search does: a hundred slow ones leave reads and Operations as quick as before.
THREADS = 16
LONG_THREADS = 16
#: Requests that may wait for a thread; more would wait longer than any client does.
MAX_WAITING = 512


#: Anything that answers requests.
V = TypeVar("V", bound=Callable[..., Any])
_MARK = "methods_that_take_long"


def takes_long(view: V, *methods: str) -> V:
    """Mark a view: to these methods it waits for others, or reads and writes a whole Mirror."""
    setattr(view, _MARK, frozenset(methods))
    return view


def may_take_long(view: Callable[..., Any], method: str) -> bool:
    """Whether :func:`takes_long` says so of it."""
    return method in getattr(view, _MARK, ())


class Overloaded(Exception):
    """Every thread is busy and the queue is full."""


class _Threads:
    """Some threads and how much they have to do."""

    def __init__(self, number: int, name: str) -> None:
        self._pool = ThreadPoolExecutor(number, thread_name_prefix=name)
        self._number = number
        self._under_way = 0

    async def run(self, job: Callable[[], T]) -> T:
        if self._under_way >= self._number + MAX_WAITING:
            raise Overloaded
        self._under_way += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, _with_connections, job)
        finally:
            self._under_way -= 1

    def start(self, job: Callable[[], object]) -> None:
        self._pool.submit(_with_connections, partial(_logged, job))


_quick = _Threads(THREADS, "request")
_long = _Threads(LONG_THREADS, "long-request")


async def run(job: Callable[[], T], *, long: bool = False) -> T:
    """``job()`` on a thread that answers, without blocking the event loop; ``long``: on one of the other kind.

    A connection belongs to its thread and lives on between jobs.  Once begun, a job runs to its
    end even when nobody waits for it any more (F18).  Raises :class:`Overloaded`.
    """
    return await (_long if long else _quick).run(job)


def start(job: Callable[[], object]) -> None:
    """Have ``job()`` done soon on a thread that answers, whoever is still there; a failure is logged."""
    _quick.start(job)


def _logged(job: Callable[[], object]) -> None:
    try:
        job()
    except Exception as error:
        logger.warning("a job that nobody waits for failed (%s)", type(error).__name__)


def _with_connections(job: Callable[[], T]) -> T:
    close_old_connections()
    try:
        return job()
    finally:
        close_old_connections()
