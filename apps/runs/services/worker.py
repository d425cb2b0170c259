"""What a worker process does when the bell rings: lease, run, land, go on.

One process has one boot id, so a restarted worker never passes for the one that was lost.  Leases
belong to a turn: each Run that a thread takes gets an owner of its own name, which is renewed for as
long as that thread has the Run in hand and not a moment longer.  Whatever a lost answer of the
database left behind under that name runs out, and the sweep says what is true.  A prefork child has
one name, its pid, for its parent renews it; when it may have left something behind, it is replaced.
"""

from __future__ import annotations

import itertools
import logging
import mmap
import os
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

from django.db import close_old_connections, connection

from apps.core import clock, conf
from apps.core.database import DATABASE_TROUBLE, surely
from apps.core.ids import new_id
from apps.ledger.selectors.instances import current_instance
from apps.runs.queue import ring
from apps.runs.services.agent_steps import is_for_an_agent, open_agent_step
from apps.runs.services.executing import execute
from apps.runs.services.landing import Landed, SegmentResult, land, unstorable
from apps.runs.services.leasing import InstanceEnded, Leased, take_lease, take_up

logger = logging.getLogger("loomsvc.worker")

_boot_id = str(new_id())
_boot_pid = os.getpid()
_instance_id: uuid.UUID | None = None
#: One byte, shared with the children that are forked after it was made.
_stopping = mmap.mmap(-1, 1)
_lost_threads = 0
_turns = itertools.count(1)
_in_hand: set[str] = set()

#: A message is a worker's turn: after this long it rings for another and lets the pool breathe.
TURN_SECONDS = 1.0


def begin(instance_id: uuid.UUID) -> None:
    """Bind this process, and the children it will fork, to a service instance."""
    global _instance_id
    _instance_id = instance_id
    _stopping[0] = 0


def stop_taking() -> None:
    """Begin no further segment, here and in this process's children; those that run may land."""
    _stopping[0] = 1


def is_stopping() -> bool:
    """Whether nothing further is to be begun."""
    return bool(_stopping[0])


def instance() -> uuid.UUID:
    """The service instance that this process belongs to."""
    return _instance_id or current_instance().id


def owners() -> list[str]:
    """Who holds the leases that threads of this process have in hand at this moment."""
    return list(_in_hand)


def child_owner(pid: int) -> str:
    """Who holds the leases of a prefork child."""
    return f"{_boot_id}:{pid}"


def _is_child() -> bool:
    return os.getpid() != _boot_pid


@contextmanager
def turn() -> Iterator[str]:
    """The owner of what this thread takes next; afterwards nobody renews its lease."""
    name = child_owner(os.getpid()) if _is_child() else f"{_boot_id}/{next(_turns)}"
    _in_hand.add(name)
    try:
        yield name
    finally:
        _in_hand.discard(name)


def lost_threads() -> int:
    """Threads of this process that Code past its timeout still occupies, or once did (R12)."""
    return _lost_threads


def work(*, turn_seconds: float = TURN_SECONDS) -> None:
    """Run what is due until nothing is, or the turn is over; then ring for another."""
    close_old_connections()
    instance_id = instance()
    ends = time.monotonic() + turn_seconds
    while not _stopping[0]:
        if time.monotonic() >= ends:
            ring()
            return
        try:
            with turn() as owner:
                leased = take_lease(owner=owner, instance_id=instance_id, now=clock.now())
                if leased is None:
                    return
                _advance(leased, ends)
        except InstanceEnded:
            logger.warning("the service was started anew; this worker takes nothing more")
            return
        except DATABASE_TROUBLE as error:
            logger.warning("the database could not be reached (%s); the sweep will ring", type(error).__name__)
            connection.close()
            leave_behind()
            return
        except Exception:
            logger.exception("a worker's turn failed")
            connection.close()
            leave_behind()
            return


def leave_behind() -> None:
    """A lease may stand under a name that its parent goes on renewing: only another child has another name."""
    if _is_child():
        os._exit(1)


def _advance(leased: Leased, ends: float) -> None:
    """Run a Run's segments one after the other until it waits, ends, or has used its fair share.

    Its share is a number of Steps, and of time: past ``ends`` others that are due come first.
    """
    for number in range(1, conf.settings().fair_share + 1):
        if is_for_an_agent(leased):
            open_agent_step(leased, now=clock.now())
            replace_after_lost_threads()
            return
        output = execute(leased)
        over = number == conf.settings().fair_share or time.monotonic() >= ends
        keep = not (over or _stopping[0] or output.abandoned)
        following = _land_surely(SegmentResult(leased, output, keep))
        if output.abandoned:
            _lose_thread()
        if following is None:
            return
        leased = following


def _land_surely(result: SegmentResult) -> Leased | None:
    """Land, trying again while the database is away; the Run's next segment, if it is kept.

    The step sequence keeps a result whose COMMIT went unanswered from landing twice.  A result that the
    ledger cannot store fails the Step.  Raises what keeps even that from landing.
    """

    def landing(result: SegmentResult) -> Landed:
        return surely(lambda: land([result], now=clock.now())[0], seconds=conf.settings().lease_seconds)

    try:
        landed = landing(result)
    except DATABASE_TROUBLE:
        raise
    except Exception as error:
        logger.exception("the result of Run %s could not land", result.leased.run_id)
        landed = landing(unstorable(result, error))
    # Refused, its answer may be that an earlier attempt landed without being heard.
    return landed.next if landed.accepted else take_up(result.leased)


def count_lost_thread() -> None:
    """Code or a Tool past its timeout goes on in its thread, which nothing can end."""
    global _lost_threads
    _lost_threads += 1


def replace_after_lost_threads() -> None:
    """Threads that cannot be ended end with their process, where it is one of its own; what it did has landed."""
    if _lost_threads and _is_child():
        logger.warning("a Step or a Tool past its timeout holds a thread; this worker process is replaced")
        connection.close()
        os._exit(1)  # the sweep rings for what else is due


def _lose_thread() -> None:
    """Code past its timeout goes on in its thread; only a process of its own can be replaced."""
    count_lost_thread()
    replace_after_lost_threads()
    logger.warning("a Step past its timeout holds a thread that cannot be ended")
