"""The one module that knows which database is underneath.

Nothing above the ORM asks; what differs between PostgreSQL and SQLite has a name here.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Iterable
from typing import Any, TypeVar

from django.db import InterfaceError, OperationalError, connection
from django.db.models import DateTimeField, DurationField, ExpressionWrapper, Func, Model, QuerySet, Value

M = TypeVar("M", bound=Model)

#: What a lost or busy database raises; faces answer it with ``UNAVAILABLE``.
DATABASE_TROUBLE = (OperationalError, InterfaceError)


class _ClockNow(Func):
    """The time of the statement on the database's own clock, whatever the transaction's start was."""

    template = "CLOCK_TIMESTAMP()"
    output_field = DateTimeField()

    def as_sqlite(self, compiler: Any, connection: Any, **context: Any) -> Any:
        # Six digits, as stored times have them: SQLite compares texts, and .123 comes before .123000.
        template = "STRFTIME('%%%%Y-%%%%m-%%%%d %%%%H:%%%%M:%%%%f000', 'NOW')"
        return self.as_sql(compiler, connection, template=template, **context)


def database_now() -> _ClockNow:
    """The database's present time, for leases: never a process's clock (engine rule, F22)."""
    return _ClockNow()


def database_time_after(seconds: float) -> Any:
    """``seconds`` from now by the database's clock."""
    later = database_now() + Value(dt.timedelta(seconds=seconds), output_field=DurationField())
    return ExpressionWrapper(later, output_field=DateTimeField())


def for_update(rows: QuerySet[M], *, skip_locked: bool = False) -> QuerySet[M]:
    """Lock ``rows`` until the transaction ends.  On SQLite BEGIN IMMEDIATE has already done so."""
    return rows.select_for_update(skip_locked=skip_locked, of=("self",))


def lock_first(rows: QuerySet[M], *, skip_locked: bool = False) -> M | None:
    """The first of ``rows``, locked until the transaction ends, with what ``select_related`` joined.

    When a row changed while its lock was taken, PostgreSQL reads that row again but joins what stood beside the
    older one; such a relation is left to be read when it is asked for.
    """
    row = for_update(rows, skip_locked=skip_locked).first()
    if row is not None:
        fields: Iterable[Any] = row._meta.concrete_fields
        for field in fields:
            if field.is_relation and field.is_cached(row):
                joined = field.get_cached_value(row)
                if getattr(row, field.attname) != (None if joined is None else joined.pk):
                    field.delete_cached_value(row)
    return row


def lock_shared(rows: QuerySet[Any]) -> bool:
    """Keep others from changing ``rows`` until the transaction ends; True when there is a row."""
    if connection.vendor != "postgresql":
        return rows.exists()
    sql, parameters = rows.order_by().values_list("pk").query.sql_with_params()
    with connection.cursor() as cursor:
        cursor.execute(f"{sql} FOR SHARE", parameters)
        return cursor.fetchone() is not None


def lock_name(*parts: str | uuid.UUID) -> None:
    """Serialise whoever names the same ``parts`` until the transaction ends."""
    if connection.vendor != "postgresql":
        return
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", ["/".join(map(str, parts))])
