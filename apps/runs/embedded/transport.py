"""The bell of a one-process service: a kombu transport which wakes its consumer instead of polling.

Queues live in memory and die with the process. That is enough for a bell, which only says "there is work";
what must not be lost is kept elsewhere. Everything here is shared by all connections of the process, since
web threads publish on their own connections and the worker consumes on another.

Not offered: fanout (so no remote control), heartbeats, priorities.
"""

from __future__ import annotations

import threading
from collections import deque
from queue import Empty
from time import monotonic
from typing import Any, ClassVar

from kombu.transport import TRANSPORT_ALIASES, virtual

ALIAS = "loom"
_virtual: Any = virtual  # kombu says it is typed, but hardly any of its virtual transport is.


class Bell:
    """Queues, and the condition on which a consumer sleeps until something may have changed for it.

    `rings` only grows. A consumer reads it before it looks and sleeps only while it is the same, so that a
    message put between looking and sleeping still wakes it.
    """

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.queues: dict[str, deque[Any]] = {}
        self.rings = 0
        self.closing = False

    def ring(self) -> None:
        """Wake every sleeping consumer, to look again."""
        with self.changed:
            self.rings += 1
            self.changed.notify_all()


class Channel(_virtual.Channel):  # type: ignore[misc]
    """Queue operations on the shared queues. All that may let a consumer go on rings the bell."""

    # What a stopped worker had taken but not begun is dropped: only hints are lost.
    do_restore = False

    def _new_queue(self, queue: str, **_kwargs: Any) -> None:
        Transport.bell.queues.setdefault(queue, deque())

    def _has_queue(self, queue: str, **_kwargs: Any) -> bool:
        return queue in Transport.bell.queues

    def _put(self, queue: str, message: Any, **_kwargs: Any) -> None:
        with Transport.bell.changed:
            Transport.bell.queues.setdefault(queue, deque()).append(message)
            Transport.bell.ring()

    def _get(self, queue: str, timeout: float | None = None) -> Any:
        try:
            return Transport.bell.queues[queue].popleft()
        except (KeyError, IndexError):
            raise Empty from None

    def _size(self, queue: str) -> int:
        return len(Transport.bell.queues.get(queue, ()))

    def _purge(self, queue: str) -> int:
        with Transport.bell.changed:
            count = self._size(queue)
            Transport.bell.queues[queue] = deque()
            return count

    def _delete(self, queue: str, *_args: Any, **_kwargs: Any) -> None:
        Transport.bell.queues.pop(queue, None)

    # kombu checks and then sets in these two. Two threads declaring at once could replace an exchange that
    # is already bound, and its messages would vanish from then on.
    def exchange_declare(self, *args: Any, **kwargs: Any) -> None:
        with Transport.bell.changed:
            super().exchange_declare(*args, **kwargs)

    def queue_bind(self, *args: Any, **kwargs: Any) -> None:
        with Transport.bell.changed:
            super().queue_bind(*args, **kwargs)

    # Pool threads settle messages while the consumer sleeps with its prefetch full: it may take more now.
    def basic_ack(self, *args: Any, **kwargs: Any) -> None:
        super().basic_ack(*args, **kwargs)
        Transport.bell.ring()

    def basic_reject(self, *args: Any, **kwargs: Any) -> None:
        super().basic_reject(*args, **kwargs)
        Transport.bell.ring()


class Transport(_virtual.Transport):  # type: ignore[misc]
    """Connections of this process to the one shared bell."""

    Channel = Channel
    driver_type = driver_name = ALIAS
    bell: ClassVar[Bell] = Bell()
    global_state: ClassVar[Any] = _virtual.BrokerState()

    def __init__(self, client: Any, **kwargs: Any) -> None:
        super().__init__(client, **kwargs)
        self.state = self.global_state

    def drain_events(self, connection: Any, timeout: float | None = None) -> None:
        """Deliver one message, sleeping until there is one; `TimeoutError` when time is up or on closing."""
        deadline = None if timeout is None else monotonic() + timeout
        while not self.bell.closing:
            seen = self.bell.rings
            try:
                self.cycle.get(self._deliver)
                return
            except Empty:
                left = None if deadline is None else max(0.0, deadline - monotonic())
            with self.bell.changed:
                # Time may be up amid rings which are for others, or while the prefetch is full.
                if left == 0 or (self.bell.rings == seen and not self.bell.changed.wait(left)):
                    break
        raise TimeoutError("no message")


def register() -> None:
    """Make `loom://` known to kombu, which accepts a transport of its own only by alias. Repeatable."""
    TRANSPORT_ALIASES[ALIAS] = f"{__name__}:Transport"


def close_all() -> None:
    """Let consumers take nothing more. Sticky, as a stopping Celery worker drains once more before it ends."""
    Transport.bell.closing = True
    Transport.bell.ring()


def reopen() -> None:
    """Take back `close_all`; waiting messages stay."""
    Transport.bell.closing = False


def reset() -> None:
    """Take back `close_all` and drop all messages, for tests."""
    # Declarations stay: producers remember having made them and would not repeat them.
    for messages in list(Transport.bell.queues.values()):
        messages.clear()
    reopen()
