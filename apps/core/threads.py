"""The threads that answer: a bounded pool whose database connections are healthy."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from django.db import close_old_connections

T = TypeVar("T")

THREADS = 16
#: Requests that may wait for a thread; more would wait longer than any client does.
MAX_WAITING = 512

_pool = ThreadPoolExecutor(THREADS, thread_name_prefix="request")
_under_way = 0


class Overloaded(Exception):
    """Every thread is busy and the queue is full."""


async def run(job: Callable[[], T]) -> T:
    """``job()`` on a thread of the pool, without blocking the event loop.

    A connection belongs to its thread and lives on between jobs.  Once begun, a job runs to its
    end even when nobody waits for it any more (F18).  Raises :class:`Overloaded`.
    """
    global _under_way
    if _under_way >= THREADS + MAX_WAITING:
        raise Overloaded
    _under_way += 1
    try:
        return await asyncio.get_running_loop().run_in_executor(_pool, _with_connections, job)
    finally:
        _under_way -= 1


def _with_connections(job: Callable[[], T]) -> T:
    close_old_connections()
    try:
        return job()
    finally:
        close_old_connections()
