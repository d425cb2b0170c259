"""The bell of background agents: a message of its own, so that neither they nor Runs wait for all of the others."""

from __future__ import annotations

from django.db import transaction

from apps.runs.queue import Bell

TASK_NAME = "agent_sessions.work"

_bell = Bell(TASK_NAME)


def ring() -> None:
    """Wake a worker to look for a session that is due."""
    _bell.ring()


def ring_on_commit() -> None:
    """Wake a worker once the current transaction is committed."""
    transaction.on_commit(ring)
