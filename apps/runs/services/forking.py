"""What a forked child must not share with its parent (FR-G3)."""

from __future__ import annotations

import os
import socket
import stat


def close_inherited_connections() -> None:
    """Give up every TCP socket that this fresh child inherited, without a word on the wire.

    Each descriptor is pointed at the null device, so that an object that still holds its number closes
    nothing of this process later.  Pipes and local sockets, which lead to the parent, stay.
    """
    null = os.open(os.devnull, os.O_RDWR)
    try:
        for descriptor in _descriptors():
            if descriptor != null and _is_tcp(descriptor):
                os.dup2(null, descriptor, inheritable=False)
    finally:
        os.close(null)


def _descriptors() -> list[int]:
    try:
        return [int(name) for name in os.listdir("/dev/fd")]
    except OSError:
        return []


def _is_tcp(descriptor: int) -> bool:
    try:
        if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
            return False
        with socket.socket(fileno=os.dup(descriptor)) as copy:
            return copy.family in (socket.AF_INET, socket.AF_INET6)
    except OSError:
        return False
