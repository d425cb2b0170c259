"""``DATABASE_URL`` → Django's ``DATABASES`` entry; SQLite in the data folder when there is none."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from apps.core import conf

#: What the write-ahead log of an embedded ledger shrinks to, in bytes, once nobody reads what is old in it (F17).
MAX_LOG_BYTES = 32 * 1024**2

_SQLITE_START = (
    "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA busy_timeout=10000; PRAGMA foreign_keys=ON; "
    f"PRAGMA journal_size_limit={MAX_LOG_BYTES};"
)


def configuration(url: str, data_dir: Path) -> dict[str, Any]:
    """The database that ``url`` names: ``postgresql://user:password@host:port/name?sslmode=…`` or
    ``sqlite:///path``; an empty ``url`` is ``ledger.sqlite3`` in ``data_dir``."""
    parts = urlsplit(url)
    if parts.scheme in ("postgres", "postgresql"):
        return _postgresql(url)
    if parts.scheme not in ("", "sqlite"):
        raise ValueError(f"DATABASE_URL: {parts.scheme}:// is not supported; use postgresql:// or sqlite:///")
    return _sqlite(Path(unquote(parts.path)) if parts.scheme else data_dir / "ledger.sqlite3")


def _sqlite(path: Path) -> dict[str, Any]:
    return {
        "ENGINE": "apps.core.sqlite3",
        "NAME": str(path),
        # A long-lived connection per thread: opening one costs more than a read.
        "CONN_MAX_AGE": None,
        "OPTIONS": {"transaction_mode": "IMMEDIATE", "init_command": _SQLITE_START},
        "TEST": {"NAME": f"{path}.test"},
    }


def _postgresql(url: str) -> dict[str, Any]:
    parts = urlsplit(url)
    # Server-prepared statements need both of the first two; either alone prepares nothing.
    options: dict[str, Any] = {
        "server_side_binding": True,
        "prepare_threshold": 5,
        "connect_timeout": 5,
        **dict(parse_qsl(parts.query)),
    }
    return {
        "ENGINE": "apps.core.postgresql",
        "NAME": unquote(parts.path.lstrip("/")),
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": parts.hostname or "",
        "PORT": str(parts.port or ""),
        "CONN_MAX_AGE": int(conf.number("LOOMSVC_CONN_MAX_AGE", 600, least=0)),
        "CONN_HEALTH_CHECKS": True,
        "OPTIONS": options,
    }
