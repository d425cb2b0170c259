"""Attacks on SQLite's writer lock: every way in which a transaction can end must hand it on."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.db import IntegrityError, OperationalError, connection, transaction

from apps.access.models import Project
from apps.core import clock
from apps.runs.models import Run, State
from tests.conftest import LOOMS, Service

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(connection.vendor != "sqlite", reason="PostgreSQL has many writers"),
]


def somebody_can_write() -> None:
    """Another thread gets the writer lock within a second."""
    written = threading.Event()

    def write() -> None:
        try:
            with transaction.atomic():
                Project.objects.filter(name="nobody").update(name="nobody")
            written.set()
        finally:
            connection.close()

    threading.Thread(target=write, daemon=True).start()
    assert written.wait(3), "the writer lock was kept"


def in_thread(body: Callable[[], Any]) -> BaseException | None:
    raised: list[BaseException] = []

    def guarded() -> None:
        try:
            body()
        except BaseException as error:
            raised.append(error)
        finally:
            connection.close()

    thread = threading.Thread(target=guarded)
    thread.start()
    thread.join(20)
    assert not thread.is_alive()
    return raised[0] if raised else None


def raises_inside() -> None:
    with transaction.atomic():
        raise SystemExit


def fails_at_commit() -> None:
    with transaction.atomic():
        # A deferred foreign key: it is checked at COMMIT.
        State.objects.create(run_id=Project.objects.create(name="p").pk, stage="s", data={}, created_at=clock.now())


def closes_inside() -> None:
    with transaction.atomic():
        Project.objects.create(name="p")
        connection.close()


def loses_its_connection_inside() -> None:
    with transaction.atomic():
        Project.objects.create(name="p")
        connection.connection.close()


def commits_by_hand_inside() -> None:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("COMMIT")


def fails_in_a_savepoint() -> None:
    with transaction.atomic():
        try:
            with transaction.atomic():
                Project.objects.create(name="twice")
                Project.objects.create(name="twice")
        except IntegrityError:
            pass
        Project.objects.create(name="once")


def fails_on_commit_hook() -> None:
    def hook() -> None:
        raise RuntimeError

    with transaction.atomic():
        transaction.on_commit(hook)


WAYS = [
    raises_inside, fails_at_commit, closes_inside, loses_its_connection_inside, commits_by_hand_inside,
    fails_in_a_savepoint, fails_on_commit_hook,
]  # fmt: skip


@pytest.mark.rule("F14", "FR-G1")
def test_however_a_transaction_ends_the_next_writer_gets_its_turn() -> None:
    for way in WAYS:
        in_thread(way)
        somebody_can_write()
    assert set(Project.objects.values_list("name", flat=True)) == {"once"}


@pytest.mark.rule("F14", "FR-G1")
def test_a_begin_that_fails_hands_the_lock_on(monkeypatch: pytest.MonkeyPatch) -> None:
    import sqlite3

    outside = sqlite3.connect(connection.settings_dict["NAME"], isolation_level=None, timeout=0)
    outside.execute("BEGIN IMMEDIATE")

    def write() -> None:
        with connection.cursor() as cursor:
            cursor.execute("PRAGMA busy_timeout = 50")
        with transaction.atomic():
            raise AssertionError("nobody else may write now")

    assert isinstance(in_thread(write), OperationalError)
    outside.execute("ROLLBACK")
    outside.close()
    somebody_can_write()


@pytest.mark.rule("F14")
def test_connections_are_set_up_for_many_threads() -> None:
    expected = {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1}
    with connection.cursor() as cursor:
        for name, value in expected.items():
            assert cursor.execute(f"PRAGMA {name}").fetchone()[0] == value
        # Longer than an operator's shell may hold the ledger by mistake.
        assert cursor.execute("PRAGMA busy_timeout").fetchone()[0] > 8000


CHILD = """
import django, uuid, sys, threading
django.setup()
from django.db import connection
from apps.core import clock
from apps.access.models import Project
from tests.conftest import Service, caller_in
service = Service(caller_in(Project.objects.get(name="trials")), sys.argv[1])
def admit():
    for _ in range(10):
        service.start(do=[{"ending": "done"}])
    service.work()
    connection.close()
threads = [threading.Thread(target=admit) for _ in range(4)]
[t.start() for t in threads]; [t.join() for t in threads]
"""


@pytest.mark.rule("F14", "FR-A15", "FR-G7")
def test_two_processes_of_four_threads_meet_no_locked_database_and_no_step_twice(
    service: Service, tmp_path: Path
) -> None:
    name = connection.settings_dict["NAME"]
    environment = {**os.environ, "DATABASE_URL": f"sqlite://{name}", "LOOM_PATHS": str(LOOMS)}
    children = [
        subprocess.Popen(
            [sys.executable, "-c", CHILD, service.instance_id],
            env={**environment, "LOOMSVC_DATA": str(tmp_path / str(number))},
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(2)
    ]
    said = [child.communicate(timeout=60)[1] for child in children]
    assert [child.returncode for child in children] == [0, 0], said
    assert "locked" not in "".join(said)
    assert "Traceback" not in "".join(said)
    service.work()
    assert list(Run.objects.values_list("status", flat=True)) == ["completed"] * 80
