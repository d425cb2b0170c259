"""The one module that knows which database is underneath.

Nothing above the ORM asks; what differs between PostgreSQL and SQLite has a name here.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from django.db import InterfaceError, OperationalError, connection
from django.db.models import (
    BooleanField,
    Case,
    DateTimeField,
    DurationField,
    ExpressionWrapper,
    Func,
    Model,
    QuerySet,
    Value,
    When,
)
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_exponential_jitter

M = TypeVar("M", bound=Model)
T = TypeVar("T")

#: What a lost or busy database raises; faces answer it with ``UNAVAILABLE``.
DATABASE_TROUBLE = (OperationalError, InterfaceError)

#: How PostgreSQL (SQLSTATE) and SQLite say that a write found no room: the disk's, or what the process may write.
_NO_ROOM = {"53100", "SQLITE_FULL", "SQLITE_IOERR_WRITE"}


def found_no_room(error: BaseException) -> bool:
    """Whether the database could not write because its disk is full (F16)."""
    cause = error.__cause__
    return {getattr(cause, "sqlstate", None), getattr(cause, "sqlite_errorname", None)} & _NO_ROOM != set()


def surely(write: Callable[[], T], *, seconds: float) -> T:
    """``write``, again and again while the database is away, each time on a new connection.

    For what cannot be had a second time and does no harm when it is written twice.  After ``seconds`` what was
    raised last is raised; everything but :data:`DATABASE_TROUBLE` at once.
    """

    def attempt() -> T:
        try:
            return write()
        except Exception:
            connection.close()
            raise

    patience = Retrying(
        retry=retry_if_exception_type(DATABASE_TROUBLE),
        wait=wait_exponential_jitter(initial=0.05, max=2.0),
        stop=stop_after_delay(seconds),
        reraise=True,
    )
    return patience(attempt)


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


def holds(**condition: Any) -> Case:
    """Whether a condition holds, as a part of another read; one about what is not there does not."""
    return Case(When(**condition, then=Value(True)), default=Value(False), output_field=BooleanField())


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


@contextmanager
def planned_for_values() -> Iterator[None]:
    """Statements inside are planned by PostgreSQL for the values that they carry, and not prepared.

    A prepared statement gets one plan for whatever value.  For lists that is the wrong one somewhere: a whole
    table is gone through for the few rows of a small Project, which an index had ready.
    """
    if connection.vendor != "postgresql":
        yield
        return
    connection.ensure_connection()
    raw = connection.connection
    before, raw.prepare_threshold = raw.prepare_threshold, None
    try:
        yield
    finally:
        raw.prepare_threshold = before


def lock_name(*parts: str | uuid.UUID) -> None:
    """Serialise whoever names the same ``parts`` until the transaction ends."""
    if connection.vendor != "postgresql":
        return
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", ["/".join(map(str, parts))])


def is_embedded_ledger() -> bool:
    """Whether the ledger is a file of this machine."""
    return connection.vendor != "postgresql"


def database_time() -> dt.datetime:
    """The database's present time, as a value."""
    is_file = is_embedded_ledger()
    with connection.cursor() as cursor:
        cursor.execute("SELECT STRFTIME('%Y-%m-%dT%H:%M:%f+00:00', 'NOW')" if is_file else "SELECT CLOCK_TIMESTAMP()")
        (now,) = cursor.fetchone()
    return dt.datetime.fromisoformat(now) if is_file else now


#: Setting → what it has to be, and what it means otherwise.
_SOUND_SQLITE = {
    "journal_mode": ("wal", "readers wait for writers"),
    "synchronous": ("2", "a power loss may take what was acknowledged"),
    "foreign_keys": ("1", "rows may point to nothing"),
}
_SOUND_POSTGRESQL = {
    "fsync": ("on", "a power loss may damage the ledger"),
    "full_page_writes": ("on", "a power loss may damage the ledger"),
    "synchronous_commit": ("on", "a power loss may take what was acknowledged"),
    "server_encoding": ("UTF8", "texts cannot be kept as they are"),
    "default_transaction_isolation": ("read committed", "writes may fail that others would retry"),
}


def unsound_settings() -> list[tuple[str, str]]:
    """What the database is set to that a ledger should not have: a sentence and its cure each."""
    is_file = is_embedded_ledger()
    expected = _SOUND_SQLITE if is_file else _SOUND_POSTGRESQL
    found: list[tuple[str, str]] = []
    with connection.cursor() as cursor:
        for name, (sound, meaning) in expected.items():
            cursor.execute(f"PRAGMA {name}" if is_file else f"SHOW {name}")
            (value,) = cursor.fetchone()
            if str(value) != sound:
                cure = "Set nothing of it in DATABASE_URL." if is_file else f"Set it to {sound} in PostgreSQL."
                found.append((f"The database's {name} is {value}, so {meaning}.", cure))
    return found


def missing_triggers(names: Iterable[str]) -> list[str]:
    """Those of ``names`` that are no triggers of this database."""
    sql = (
        "SELECT name FROM sqlite_master WHERE type = 'trigger'"
        if is_embedded_ledger()
        else "SELECT tgname FROM pg_trigger WHERE tgenabled <> 'D'"
    )
    with connection.cursor() as cursor:
        cursor.execute(sql)
        present = {name for (name,) in cursor.fetchall()}
    return [name for name in names if name not in present]
