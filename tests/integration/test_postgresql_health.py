"""A connection is asked whether it still stands only when it may not, and a dead one never reaches a request."""

from __future__ import annotations

import pytest
from attacking import end_backend, only_on_postgresql
from django.db import OperationalError, close_old_connections, connection
from django.db.backends.postgresql import base

from apps.core.threads import _with_connections
from tests.conftest import Service

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """What the server answered each time that it was asked."""
    only_on_postgresql()
    answers: list[bool] = []
    really = base.DatabaseWrapper.is_usable

    def is_usable(self: base.DatabaseWrapper) -> bool:
        answers.append(really(self))
        return answers[-1]

    monkeypatch.setattr(base.DatabaseWrapper, "is_usable", is_usable)
    connection.ensure_connection()
    connection._answered_at = float("-inf")
    return answers


def one_request() -> int:
    """The backend that answers a request."""

    def job() -> int:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_backend_pid()")
            return int(cursor.fetchone()[0])

    return _with_connections(job)


def test_requests_in_close_order_ask_once(asked: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    backend = one_request()
    assert [one_request() for _ in range(3)] == [backend] * 3
    assert asked == [True]
    monkeypatch.setattr("apps.core.postgresql.base.FRESH_SECONDS", 0.0)
    assert one_request() == backend
    assert asked == [True, True]


def test_a_connection_that_was_ended_a_moment_ago_is_replaced_before_a_request_meets_it(asked: list[bool]) -> None:
    backend = one_request()
    end_backend()
    again = one_request()
    assert again != backend
    assert asked == [True, False]
    assert one_request() == again


def test_after_an_error_the_server_is_asked(asked: list[bool]) -> None:
    one_request()
    connection.errors_occurred = True
    close_old_connections()
    assert asked == [True, True]
    assert not connection.errors_occurred


def test_a_connection_that_ends_during_a_request_costs_that_request_only(asked: list[bool]) -> None:
    one_request()

    def job() -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
            end_backend()
            cursor.execute("SELECT 1")

    with pytest.raises(OperationalError):
        _with_connections(job)
    assert one_request()


def test_a_read_after_a_restart_of_the_server_is_answered(asked: list[bool], service: Service) -> None:
    run_id = service.start()
    one_request()
    end_backend()
    assert _with_connections(lambda: service.run(run_id))["runId"] == run_id
