"""What callers are told while the database cannot serve them, said by the databases themselves (F16, F12)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.core.management import CommandError
from django.db import connection

from apps.core.commands import LoomsvcCommand
from apps.core.database import DATABASE_TROUBLE, found_no_room
from apps.core.errors import ErrorCode
from apps.core.outages import outage
from tests.conftest import Service

pytestmark = pytest.mark.django_db(transaction=True)


@contextmanager
def full_disk() -> Iterator[None]:
    """No write finds room: SQLite may not grow, PostgreSQL raises what it does when its disk is full."""
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            cursor.execute("PRAGMA max_page_count = 1")  # as many as there are
        else:
            cursor.execute(
                "CREATE FUNCTION no_room() RETURNS trigger LANGUAGE plpgsql AS "
                "$$ BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = 'disk_full'; END $$"
            )
            cursor.execute("CREATE TRIGGER no_room BEFORE INSERT ON ledger_operation EXECUTE FUNCTION no_room()")
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            if connection.vendor == "sqlite":
                cursor.execute("PRAGMA max_page_count = 4294967294")
            else:
                cursor.execute("DROP FUNCTION no_room CASCADE")


def fill(service: Service) -> Any:
    """Start Runs until one finds no room; free pages are used up first."""
    for _ in range(200):
        service.operate("run", loomName="trial", input={"do": [], "effects": "x" * 200_000})
    raise AssertionError("there was always room")


@pytest.mark.rule("F16")
def test_a_full_disk_is_said_to_be_full_and_stores_nothing(service: Service) -> None:
    with full_disk(), pytest.raises(DATABASE_TROUBLE) as caught:
        fill(service)
    assert found_no_room(caught.value)
    told = outage(caught.value)
    assert told.code is ErrorCode.UNAVAILABLE
    assert told.message == "The disk that the ledger is on is full; try again once its operator has made room."
    assert service.start(do=[]), "with room it goes on"


@pytest.mark.rule("F12")
def test_any_other_trouble_is_not_called_a_full_disk(service: Service) -> None:
    trouble = {"sqlite": "SELECT * FROM nowhere", "postgresql": "SET statement_timeout = 1; SELECT pg_sleep(1)"}
    with pytest.raises(DATABASE_TROUBLE) as caught, connection.cursor() as cursor:
        cursor.execute(trouble[connection.vendor])
    connection.close()
    assert not found_no_room(caught.value)
    assert outage(caught.value).message == "The ledger does not answer just now; try again shortly."
    assert not found_no_room(DATABASE_TROUBLE[0]("raised by itself"))


@pytest.mark.rule("F16")
def test_commands_say_it_too(service: Service) -> None:
    class Starting(LoomsvcCommand):
        requires_system_checks: list[str] = []

        def handle(self, **_: Any) -> None:
            fill(service)

    with full_disk(), pytest.raises(CommandError, match="UNAVAILABLE: The disk that the ledger is on is full"):
        Starting().execute(force_color=False, no_color=False, skip_checks=True)
