"""How a local client finds the service that runs on a data folder, and its credentials (N2, N4).

It knows no Django: a client has no ledger to open.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

CONNECTION_FILE = "connection.json"


def read_connection(folder: Path) -> dict[str, Any] | None:
    """The connection file's content, or ``None`` when there is none that can be used."""
    try:
        body = json.loads((folder / CONNECTION_FILE).read_text())
    except (OSError, ValueError):
        return None
    return body if isinstance(body, dict) and isinstance(body.get("entries"), dict) else None


def find_running(folder: Path) -> dict[str, Any] | None:
    """The same, once the service that wrote it is seen to live."""
    connection = read_connection(folder)
    return connection if connection is not None and _is_alive(connection.get("pid")) else None


def _is_alive(pid: Any) -> bool:
    """Whether the process lives: a credential must not go to whoever has taken a dead service's port."""
    try:
        os.kill(int(pid), 0)
    except PermissionError:
        return True
    except (OSError, OverflowError, TypeError, ValueError):
        return False
    return True
