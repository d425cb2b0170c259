"""One service per data folder."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import IO


class FolderInUse(RuntimeError):
    """Another service holds the folder."""


def lock_folder(folder: Path) -> IO[str]:
    """Hold ``folder`` until the returned file is closed or the process ends, however it ends."""
    file = open(folder / "lock", "a+")  # noqa: SIM115 (held for the life of the process)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.seek(0)
        holder = file.read().strip() or "unknown"
        file.close()
        raise FolderInUse(
            f"Another loomsvc (process {holder}) runs on {folder}. Stop it, or choose another folder with --data."
        ) from None
    file.truncate(0)
    file.write(str(os.getpid()))
    file.flush()
    return file
