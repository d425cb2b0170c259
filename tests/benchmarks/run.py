"""Measure the speed goals side by side with their peers and print the table: ``make bench``, ``make bench ROWS=P7``.

A row's module has ``NUMBERS``, its goals', and ``rows(databases)``; it is added here.
"""

from __future__ import annotations

import argparse
import os
import platform
import sqlite3
import sys
from importlib.metadata import version

import psycopg

from apps.core.version import VERSION
from tests.benchmarks import p1_runs, p2_steps, p6_run, p7_get_run, p11_embedded
from tests.benchmarks.rows import Database, Row, table
from tests.run import find_postgresql

MODULES = (p1_runs, p2_steps, p6_run, p7_get_run, p11_embedded)


def versions(databases: list[Database]) -> str:
    """What was measured, on what."""
    packages = [f"{name} {version(name)}" for name in ("django", "psycopg", "uvicorn", "pydantic", "celery")]
    found = [f"SQLite {sqlite3.sqlite_version}"]
    for database in databases:
        if database.url:
            with psycopg.connect(database.url) as connection:
                settings = connection.execute("SELECT current_setting('server_version'), current_setting('fsync')")
                number, fsync = settings.fetchone() or ("?", "?")
                found.append(f"PostgreSQL {number.split()[0]}, fsync {fsync}")
    machine = f"{platform.system()} {platform.machine()}, {os.cpu_count()} processors"
    return f"loomsvc {VERSION}, Python {platform.python_version()}, {', '.join([*packages, *found])}; {machine}"


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the speed goals side by side with their peers.")
    known = [number for module in MODULES for number in module.NUMBERS]
    parser.add_argument("rows", nargs="*", help=f"goals to measure, of {', '.join(known)}; all when none is named")
    wanted = parser.parse_args().rows or known
    unknown = sorted(set(wanted) - set(known))
    if unknown:
        parser.error(f"{', '.join(unknown)}: no such row; there are {', '.join(known)}")
    databases = [Database("SQLite", "")]
    if url := find_postgresql():
        databases.append(Database("PostgreSQL", url))
    else:
        print("Not measured: PostgreSQL; set TEST_DATABASE_URL.", file=sys.stderr)
    rows: list[Row] = []
    for module in MODULES:
        if set(module.NUMBERS) & set(wanted):
            rows += [row for row in module.rows(databases) if row.goal.number in wanted]
    print(versions(databases))
    print(table(rows))


if __name__ == "__main__":
    main()
