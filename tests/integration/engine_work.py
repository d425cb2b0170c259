"""What tests of the engine do beside calling it: lease as a worker does, and look at what it did."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

from django.db import connection

from apps.core import clock
from apps.runs.models import StepAttempt
from apps.runs.services.leasing import Leased, take_lease
from tests.conftest import Service


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def lease(service: Service, owner: str = "worker") -> Leased:
    leased = take_lease(owner=owner, instance_id=uuid.UUID(service.instance_id), now=clock.now())
    assert leased is not None
    return leased


def attempts(run: dict[str, Any]) -> list[tuple[str, str, int]]:
    rows = StepAttempt.objects.filter(run_id=run["runId"], kind="step").order_by("step_seq")
    return list(rows.values_list("step", "status", "attempt"))


def work_and_close(service: Service) -> None:
    try:
        service.work()
    finally:
        connection.close()
