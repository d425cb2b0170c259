"""What core has to say to `loomsvc doctor`: the data folder, the disk, the database and the clocks."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

from django.conf import settings as django_settings
from django.db import DatabaseError, InterfaceError, connection
from django.db.migrations.executor import MigrationExecutor

from apps.core import clock, conf
from apps.core.database import database_time, is_embedded_ledger, unsound_settings
from apps.core.databases import MAX_LOG_BYTES
from apps.core.findings import Finding, ok, problem, register_check, warning

#: Bytes on the disk below which a ledger should not be run, and below which it soon cannot.
LEAST_FREE, LITTLE_FREE = 100 * 1024**2, 1024**3
#: Seconds between two clocks: retries and expiries are off by as much, and from the latter on leases are in doubt.
CLOCK_WARNING, CLOCK_PROBLEM = 2.0, 10.0


def check_folder() -> Iterator[Finding]:
    """The data folder is there, is ours to write, and nobody else's to read."""
    folder = conf.settings().data_dir
    if not folder.is_dir() and not django_settings.EMBEDDED:
        yield ok(f"No data folder {folder} yet; it is made when a Release is unpacked")
        return
    if not folder.is_dir():
        yield problem(f"There is no data folder {folder}.", "Name the right one with --data, or start: loomsvc up")
        return
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        yield problem(
            f"The data folder {folder} cannot be written.", f"Give it to this account: chown -R $USER {folder}"
        )
        return
    yield ok(f"Data folder {folder}")
    for path in (folder, *sorted(folder.glob("*secret*"))):
        if _is_open(path):
            yield warning(f"{path} can be read by other accounts.", f"chmod go-rwx {path}")


def _is_open(path: Path) -> bool:
    return bool(stat.S_IMODE(path.stat().st_mode) & (stat.S_IRWXG | stat.S_IRWXO))


def check_disk() -> Iterator[Finding]:
    """There is room for what lands, where this machine has to hold it."""
    folder = conf.settings().data_dir
    if not folder.is_dir():
        return
    free = shutil.disk_usage(folder).free
    said = f"{free / 1024**3:.1f} GiB free on the disk of the data folder"
    cure = "Free some space, or move the folder to a larger disk and name it with --data."
    if free < LEAST_FREE:
        yield problem(f"Only {said}.", cure)
    elif free < LITTLE_FREE:
        yield warning(f"Only {said}.", cure)
    else:
        yield ok(said)


def check_log() -> Iterator[Finding]:
    """The write-ahead log of an embedded ledger is emptied now and then, which any old reader prevents (F17)."""
    ledger = Path(str(connection.settings_dict["NAME"]))
    log = ledger.with_name(f"{ledger.name}-wal")
    if not is_embedded_ledger() or not log.is_file():
        return
    size = log.stat().st_size
    said = f"The ledger's write-ahead log has {size / 1024**2:.0f} MiB"
    # One large transaction, such as the restore of a Mirror, may make it so for a moment.
    if size > 2 * MAX_LOG_BYTES:
        yield warning(
            f"{said}: something has been reading the ledger for so long that it cannot be emptied.",
            f"End that reader, a shell or a backup (fuser -v {log} shows who has it open); the log then shrinks.",
        )
    else:
        yield ok(said)


def _no_ledger() -> Finding:
    return problem(
        "There is no ledger yet.",
        "loomsvc up, or loomsvc migrate, sets one up. If the service has its ledger elsewhere, set DATABASE_URL as it "
        "does.",
    )


def check_database() -> Iterator[Finding]:
    """The ledger can be reached, has every migration, and is set to keep what it acknowledges."""
    name = _database_name()
    if is_embedded_ledger() and not Path(str(connection.settings_dict["NAME"])).is_file():
        yield _no_ledger()
        return
    try:
        connection.ensure_connection()
        executor = MigrationExecutor(connection)
    except (DatabaseError, InterfaceError) as error:
        yield problem(
            f"{name} cannot be reached ({type(error).__name__}).",
            "Start it, and check address, user and password in DATABASE_URL.",
        )
        return
    due = executor.migration_plan(executor.loader.graph.leaf_nodes())
    known = set(executor.loader.disk_migrations)
    if not executor.loader.applied_migrations:
        # Whoever looks for a ledger with SQLite leaves an empty file behind.
        yield _no_ledger()
        return
    if due:
        yield problem(f"{name} lacks {len(due)} migrations.", "Stop the service, then: loomsvc migrate")
        return
    yield ok(f"{name}, every migration applied")
    if unknown := {key for key in executor.loader.applied_migrations if key not in known}:
        yield warning(
            f"The ledger has {len(unknown)} migrations of a newer loomsvc.", "Run the newer version that made them."
        )
    for message, cure in unsound_settings():
        yield warning(message, cure)


def _database_name() -> str:
    settings = connection.settings_dict
    if is_embedded_ledger():
        return f"SQLite ledger {settings['NAME']}"
    place = f"{settings['HOST'] or 'local socket'}{':' if settings['PORT'] else ''}{settings['PORT']}"
    return f"PostgreSQL ledger {settings['NAME']} at {place}"


def check_clock() -> Iterator[Finding]:
    """This machine's clock against the database's, which leases go by."""
    apart = abs((clock.now() - database_time()).total_seconds())
    message = f"The clock of this machine and the database's are {apart:.1f} s apart"
    cure = "Have both machines set their clocks by NTP."
    if apart >= CLOCK_PROBLEM:
        yield problem(f"{message}.", cure)
    elif apart >= CLOCK_WARNING:
        yield warning(f"{message}.", cure)
    else:
        yield ok(message)


def check_broker() -> Iterator[Finding]:
    """The bell can be rung."""
    if django_settings.EMBEDDED:
        yield ok("Embedded: the bell rings inside the process of loomsvc up")
        return
    import redis

    broker = redis.Redis.from_url(django_settings.REDIS_URL, socket_connect_timeout=2, socket_timeout=2)
    place = "Redis"
    try:
        kept = broker.connection_pool.connection_kwargs
        place = f"Redis at {kept.get('host', kept.get('path', 'localhost'))}:{kept.get('port', '')}".rstrip(":")
        broker.ping()
    except (redis.RedisError, OSError) as error:
        yield problem(
            f"{place} cannot be reached ({type(error).__name__}).",
            "Start it, and check REDIS_URL. Until then the sweep alone finds what is due.",
        )
        return
    finally:
        broker.close()
    yield ok(f"{place} answers")


register_check("folder", check_folder)
register_check("disk", check_disk)
register_check("disk", check_log)
register_check("database", check_database)
register_check("clock", check_clock, reads_ledger=True)
register_check("broker", check_broker)
