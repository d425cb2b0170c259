"""Calling a function of a Loom: synchronous or not, with or without a timeout, never raising."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

#: How long a coroutine that was cancelled at its timeout may take to wind up.
GRACE_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Returned:
    """The function came back."""

    value: Any


@dataclass(frozen=True, slots=True)
class Raised:
    """It raised, be it ``SystemExit`` or ``MemoryError``."""

    error: BaseException


@dataclass(frozen=True, slots=True)
class TimedOut:
    """It was past its timeout; ``abandoned``: its thread goes on."""

    abandoned: bool


Called = Returned | Raised | TimedOut


def call(
    function: Callable[..., Any],
    arguments: Sequence[Any],
    keywords: dict[str, Any] | None = None,
    *,
    timeout: float | None,
    thread_done: Callable[[], None],
) -> Called:
    """Call ``function`` and say what came of it.

    With a ``timeout`` (seconds) it runs on a daemon thread of its own, where ``thread_done`` is
    called last.  A coroutine is cancelled at its timeout; a synchronous function that does not
    return in time is left behind.
    """
    if timeout is None and not _loop_is_running():
        return _outcome(function, arguments, keywords or {}, None)
    box: list[Called] = []

    def body() -> None:
        try:
            box.append(_outcome(function, arguments, keywords or {}, timeout))
        finally:
            with contextlib.suppress(BaseException):
                thread_done()

    context = contextvars.copy_context()
    thread = threading.Thread(target=context.run, args=(body,), name="loom-step", daemon=True)
    thread.start()
    if timeout is None:
        thread.join()
        return box[0]
    thread.join(timeout)
    if not box and inspect.iscoroutinefunction(function):
        thread.join(GRACE_SECONDS)
    return box[0] if box else TimedOut(abandoned=thread.is_alive())


def _loop_is_running() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _outcome(
    function: Callable[..., Any], arguments: Sequence[Any], keywords: dict[str, Any], timeout: float | None
) -> Called:
    try:
        value = function(*arguments, **keywords)
        if inspect.isawaitable(value):
            return asyncio.run(_awaited(value, timeout))
        return Returned(value)
    except BaseException as error:
        return Raised(error)


async def _awaited(value: Any, timeout: float | None) -> Called:
    try:
        async with asyncio.timeout(timeout) as limit:
            return Returned(await value)
    except TimeoutError as error:
        return TimedOut(abandoned=False) if limit.expired() else Raised(error)
