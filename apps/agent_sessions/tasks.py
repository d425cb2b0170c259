"""The message that wakes a worker for background agents."""

from __future__ import annotations

from celery import shared_task

from apps.agent_sessions.services import working
from apps.agent_sessions.services.bell import TASK_NAME


@shared_task(name=TASK_NAME, ignore_result=True)  # type: ignore[untyped-decorator]
def work() -> None:
    """Carry out the session that is due.  Losing this message, or getting it twice, loses and repeats nothing."""
    working.work()
