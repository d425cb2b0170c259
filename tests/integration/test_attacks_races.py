"""Two that meet at one Run, seeded: the loser is told, and the Run is in one legal state."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest

from apps.core import clock
from apps.core.database import database_time_after
from apps.runs.models import Run
from apps.runs.services.executing import execute
from apps.runs.services.landing import SegmentResult, land
from apps.runs.services.leasing import take_lease
from apps.runs.services.sweeping import sweep
from tests.chances import chance, rounds
from tests.conftest import Service
from tests.integration.attacking import begun, check_run, meet

pytestmark = pytest.mark.django_db(transaction=True)


def revision_of(service: Service, run_id: str) -> int:
    return int(service.run(run_id)["revision"])


def paused(service: Service) -> str:
    run_id = service.start(do=[{"ending": "done"}])
    service.operate("pause_run", runId=run_id)
    return run_id


def race(service: Service, name: str) -> tuple[str, list[Callable[[], Any]]]:
    """A Run and what two contenders do to it at once."""
    if name in ("answer/cancel", "answer/answer", "answer/pause"):
        run_id = service.finish(do=[{"ending": "ask"}, {"ending": "again"}])["runId"]
        action = service.run(run_id)["pendingAction"]["id"]
        answer = [{"questionId": "q", "isSkipped": False, "answer": "yes"}]
        one = lambda: service.operate("answer_ask", runId=run_id, actionId=action, answer=answer)  # noqa: E731
    elif name in ("resume/resume", "resume/cancel"):
        run_id = paused(service)
        revision = revision_of(service, run_id)
        one = lambda: service.operate("resume_run", runId=run_id, expectedRevision=revision)  # noqa: E731
    elif name in ("lease/cancel", "lease/pause", "lease/lease"):
        run_id = service.start(do=[{"ending": "done"}])
        now = clock.now()
        one = lambda: take_lease(owner="w", instance_id=uuid.UUID(service.instance_id), now=now)  # noqa: E731
    else:
        run_id, step = begun(service, do=[{"ending": "again", "artifact": 1, "record": f"r{uuid.uuid4()}"}])
        if name.startswith("sweep"):
            Run.objects.filter(pk=run_id).update(lease_expires_at=database_time_after(-1))
        output = execute(step)
        one = lambda: land([SegmentResult(step, output)], now=clock.now())  # noqa: E731
    second: Callable[[], Any]
    match name.partition("/")[2]:
        case "cancel" | "pause" as verb:
            second = lambda: service.operate(f"{verb}_run", runId=run_id)  # noqa: E731
        case "landing":
            second = lambda: sweep(now=clock.now())  # noqa: E731
        case "opening":
            second = service.reopen
        case _:
            second = one
    return run_id, [one, second]


ROUNDS = rounds(3)

RACES = [
    "answer/cancel", "answer/answer", "answer/pause", "resume/resume", "resume/cancel", "lease/cancel", "lease/pause",
    "lease/lease", "landing/cancel", "landing/pause", "sweep/landing", "landing/opening",
]  # fmt: skip


@pytest.mark.rule("F13", "F21", "FR-G5", "FR-A19", "H3", "R1", "R4", "R8", "R9", "R10", "R11", "R16")
@pytest.mark.timeout(60 + 5 * ROUNDS)
@pytest.mark.parametrize("name", RACES)
def test_of_two_that_meet_at_one_run_the_loser_is_told_and_the_run_is_in_one_legal_state(
    service: Service, name: str
) -> None:
    moments = chance(name)
    for number in range(ROUNDS):
        run_id, bodies = race(service, name)
        answers = meet(moments, *bodies)
        errors = [a["error"]["code"] for a in answers if isinstance(a, dict) and "error" in a]
        assert set(errors) <= {"CONFLICT", "INSTANCE_CHANGED"}, (number, answers)
        check_run(service, run_id)
        if name in ("answer/answer", "resume/resume"):
            assert errors == ["CONFLICT"], "the first valid one wins, the other is told"
        if name == "lease/lease":
            assert sorted(a is None for a in answers) == [False, True]
        Run.objects.filter(status="running").update(lease_expires_at=database_time_after(-1))
        sweep(now=clock.now())
        service.work()
        check_run(service, run_id)
        assert service.run(run_id)["status"] in ("completed", "failed", "cancelled", "paused")
