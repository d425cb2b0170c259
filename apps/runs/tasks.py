"""The one message that workers get: look, there is work."""

from __future__ import annotations

from celery import shared_task

from apps.runs.queue import TASK_NAME
from apps.runs.services import worker


@shared_task(name=TASK_NAME, ignore_result=True)  # type: ignore[untyped-decorator]
def work() -> None:
    """Run what is due.  Losing this message, or getting it twice, loses and repeats nothing."""
    worker.work()
