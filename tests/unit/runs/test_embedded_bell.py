"""The embedded bell with real parts: kombu connections, a Celery app and its worker in this process."""

from __future__ import annotations

import os
import queue
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import celery  # type: ignore[import-untyped]
import pytest
from kombu.connection import Connection

from apps.runs.embedded import transport as embedded_transport
from apps.runs.embedded.worker import EmbeddedWorker

embedded_transport.register()

#: How long something may take that happens at once, however busy the machine is.
PATIENCE = 30

connect: Any = Connection

CONF = {
    "broker_url": "loom://",
    "task_ignore_result": True,
    "worker_hijack_root_logger": False,
}


@pytest.fixture
def app() -> Iterator[Any]:
    """An app of its own for each test, with no message left from the one before."""
    embedded_transport.reset()
    made: Any = celery.Celery("bell", set_as_current=False)
    made.conf.update(CONF)
    yield made
    made.close()
    embedded_transport.reset()


@pytest.fixture
def start(app: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], EmbeddedWorker]]:
    """Starts workers that sleep until the bell wakes them, and ends them when the test is over."""
    workers: list[EmbeddedWorker] = []
    drain = embedded_transport.Transport.drain_events

    def sleep_on(self: Any, connection: Any, timeout: float | None = None) -> None:
        # Celery's worker looks again each two seconds by itself, and so would make good what the bell has missed.
        drain(self, connection, 10 * PATIENCE)

    monkeypatch.setattr(embedded_transport.Transport, "drain_events", sleep_on)

    def begin(threads: int) -> EmbeddedWorker:
        workers.append(EmbeddedWorker(app, threads=threads))
        workers[-1].start()
        return workers[-1]

    yield begin
    for worker in workers:
        assert worker.stop(PATIENCE)


def task(app: Any, body: Callable[..., object], **options: Any) -> Any:
    """Register `body` as a task of the app."""

    def run(*args: Any) -> None:  # Celery cannot read the signature of a lambda.
        body(*args)

    # Shared tasks would be registered with the apps of later tests too.
    return app.task(run, name="bell.task", shared=False, **options)


def test_delivers(app: Any, start: Callable[[int], EmbeddedWorker]) -> None:
    """A message put before the worker starts is delivered like one put after."""
    seen: queue.SimpleQueue[int] = queue.SimpleQueue()
    ring = task(app, lambda number: seen.put(number))
    ring.delay(1)
    assert start(2).running
    ring.delay(2)
    assert sorted(seen.get(timeout=PATIENCE) for _ in range(2)) == [1, 2]


def test_wakes_from_idle(app: Any, start: Callable[[int], EmbeddedWorker]) -> None:
    """A worker that had gone to sleep is woken by each message."""
    seen: queue.SimpleQueue[int] = queue.SimpleQueue()
    ring = task(app, lambda number: seen.put(number))
    start(2)
    for number in range(10):
        time.sleep(0.05)
        ring.delay(number)
        assert seen.get(timeout=PATIENCE) == number


def test_a_put_between_looking_and_sleeping_wakes(app: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The moment in which a wake-up could be lost, hit for certain instead of by chance."""
    with connect("loom://") as consumer, connect("loom://") as producer:
        taken, given = consumer.SimpleQueue("moment"), producer.SimpleQueue("moment")
        cycle = consumer.transport.cycle
        look = cycle.get

        def look_and_put(*args: Any, **kwargs: Any) -> None:
            try:
                look(*args, **kwargs)
            except queue.Empty:
                given.put("late")
                raise

        monkeypatch.setattr(cycle, "get", look_and_put)
        # Nothing else would end this wait, and a wait whose time is up raises.
        assert taken.get(timeout=PATIENCE).payload == "late"


@pytest.mark.parametrize("await_each", [False, True], ids=["flood", "one at a time"])
def test_no_lost_wake_up_in_the_transport(app: Any, await_each: bool) -> None:
    """2,000 puts of 4 threads arrive without the consumer ever sleeping until its time is up."""
    arrived = [threading.Semaphore(0) for _ in range(4)]
    failures: list[str] = []

    def put(number: int) -> None:
        with connect("loom://") as connection:
            bell = connection.SimpleQueue("race")
            for _ in range(500):
                bell.put(number)
                if await_each and not arrived[number].acquire(timeout=PATIENCE):
                    failures.append("a message did not arrive")

    with connect("loom://") as connection:
        threads = [threading.Thread(target=put, args=(number,)) for number in range(4)]
        bell = connection.SimpleQueue("race")
        for thread in threads:
            thread.start()
        for _ in range(2000):
            # Raises Empty when the wake-up is lost, as nothing else would end this wait.
            message = bell.get(timeout=PATIENCE)
            message.ack()
            arrived[message.payload].release()
        for thread in threads:
            thread.join()
    assert not failures


def test_no_lost_wake_up_in_the_worker(app: Any, start: Callable[[int], EmbeddedWorker]) -> None:
    """2,000 tasks sent by 4 threads all run; a lost wake-up would leave the last ones where they are."""
    seen: queue.SimpleQueue[int] = queue.SimpleQueue()
    ring = task(app, lambda number: seen.put(number))
    start(4)

    def send() -> None:
        for number in range(500):
            ring.delay(number)

    threads = [threading.Thread(target=send) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(seen.get(timeout=PATIENCE) for _ in range(2000)) == sorted(4 * [*range(500)])


@pytest.mark.parametrize("acks_late", [False, True])
def test_a_full_prefetch_does_not_delay(app: Any, start: Callable[[int], EmbeddedWorker], acks_late: bool) -> None:
    """With one thread every acknowledgement must wake the consumer, else the next task would wait for ever."""
    seen: queue.SimpleQueue[int] = queue.SimpleQueue()
    ring = task(app, lambda number: seen.put(number), acks_late=acks_late)
    start(1)
    for number in range(20):
        ring.delay(number)
    assert [seen.get(timeout=PATIENCE) for _ in range(20)] == list(range(20))


def test_idles_without_cpu(app: Any, start: Callable[[int], EmbeddedWorker]) -> None:
    """A waiting worker costs no measurable processor time."""
    start(4)
    time.sleep(0.1)
    used = time.process_time()
    time.sleep(1)
    assert time.process_time() - used < 0.02


def test_stops_at_once_when_idle(app: Any, start: Callable[[int], EmbeddedWorker]) -> None:
    """The closing flag wakes a sleeping worker, which would otherwise sleep on."""
    worker = start(2)
    time.sleep(0.1)
    assert worker.stop(PATIENCE)
    assert not worker.running


def test_stop_tells_of_a_running_task(app: Any, start: Callable[[int], EmbeddedWorker]) -> None:
    """A task which outlives the grace time is reported, and no second worker starts beside it."""
    begun, release = threading.Event(), threading.Event()

    def body() -> None:
        begun.set()
        release.wait(3 * PATIENCE)

    ring = task(app, body)
    worker = start(2)
    try:
        ring.delay()
        assert begun.wait(PATIENCE)
        asked = time.monotonic()
        assert worker.stop(0.3) is False
        assert 0.3 <= time.monotonic() - asked < PATIENCE
        with pytest.raises(RuntimeError, match="has not ended"):
            EmbeddedWorker(app, threads=1).start()
    finally:
        release.set()
    assert worker.stop(PATIENCE)


def test_starts_again(app: Any, start: Callable[[int], EmbeddedWorker]) -> None:
    """A worker, or another one, can follow in the same process and gets what was put in between."""
    seen: queue.SimpleQueue[int] = queue.SimpleQueue()
    ring = task(app, lambda number: seen.put(number))
    worker = start(2)
    ring.delay(1)
    assert seen.get(timeout=PATIENCE) == 1
    assert worker.stop(PATIENCE)
    ring.delay(2)
    assert seen.empty()
    worker.start()
    assert seen.get(timeout=PATIENCE) == 2
    assert worker.stop(PATIENCE)
    start(1)
    ring.delay(3)
    assert seen.get(timeout=PATIENCE) == 3


def test_refuses_another_broker() -> None:
    """A worker on a broker which cannot be woken would not stop in time."""
    other: Any = celery.Celery("other", broker="memory://", set_as_current=False)
    with pytest.raises(ValueError, match="loom://"):
        EmbeddedWorker(other, threads=1).start()


def test_start_tells_why_it_failed(app: Any) -> None:
    """A failure in the background thread reaches the caller."""
    app.conf.imports = ["no_such_module"]
    with pytest.raises(RuntimeError, match="did not start") as caught:
        EmbeddedWorker(app, threads=1).start()
    assert isinstance(caught.value.__cause__, ModuleNotFoundError)


def test_leaves_signals_and_logging_alone() -> None:
    """In a process of its own: no handler changes, and a process that never called stop can still end."""
    script = textwrap.dedent("""
        import logging, signal, sys, celery; from apps.runs.embedded import transport as embedded_transport
        from apps.runs.embedded.worker import EmbeddedWorker
        embedded_transport.register()
        def taken():
            numbers = signal.valid_signals()
            return [signal.getsignal(n) for n in numbers], list(logging.root.handlers), sys.stdout, sys.stderr
        before = taken()
        EmbeddedWorker(celery.Celery("x", broker="loom://"), threads=2).start()
        assert taken() == before
    """)
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=Path(__file__).parents[3],
        # Django's own set-up would change logging, and is not what is asked about here.
        env={name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"},
        timeout=20,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
