"""The engine over the real ledger, in one process: what one Run does from admission to its end."""

from __future__ import annotations

import pytest

from tests.conftest import Service

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.rule("R1", "R6", "R7")
def test_a_run_goes_through_its_steps_and_stages_to_its_outcome(service: Service) -> None:
    run = service.finish(do=[{"ending": "again"}, {"ending": "leave"}])
    assert run["status"] == "completed", run
    assert run["outcome"] == "done"
    assert run["cursor"] == {"stage": "wrap", "step": "close", "visit": 1}
    assert run["boundary"] == 3
    events = service.call("list_run_events", runId=run["runId"])["events"]
    assert [e["seq"] for e in events] == list(range(1, len(events) + 1))
    assert [e["type"] for e in events] == [
        "RunAdmitted", "RunDispatched", "StageInitialized", "StepCompleted", "StepCompleted", "StageInitialized",
        "StepCompleted", "RunCompleted",
    ]  # fmt: skip
