"""The real ledger against the reference: any order of operations, leases, landings, losses and restarts.

Two workers take turns at holding segments, so that landings come late, twice, after a cancel and
after a restart; every identity is sent again now and then, unchanged and changed.
"""

from __future__ import annotations

import os
import uuid
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, multiple, precondition, rule

from apps.core import clock
from apps.core.database import database_time_after
from apps.ledger.models import Event
from apps.runs.models import Run, StepAttempt
from apps.runs.services.executing import execute
from apps.runs.services.landing import SegmentResult, land
from apps.runs.services.leasing import InstanceEnded, Leased, take_lease
from apps.runs.services.sweeping import sweep
from tests.conftest import Service
from tests.integration.reference_runs import TERMINAL, ReferenceRun, Segment

pytestmark = pytest.mark.django_db(transaction=True)

ACTS = st.fixed_dictionaries(
    {
        "ending": st.sampled_from(["again", "other", "leave", "done", "ask", "confirm", "nowhere"]),
        "failures": st.sampled_from([0, 0, 0, 1, 2, 3]),
        "error": st.sampled_from(["ConnectionError", "ValueError"]),
    }
)
WORKERS = st.sampled_from(["worker-a", "worker-b"])


def machine_for(service: Service) -> type[RuleBasedStateMachine]:
    """The state machine over one service (hypothesis makes its instances without arguments)."""

    class LedgerAgainstReference(RuleBasedStateMachine):
        runs = Bundle("runs")
        operations = Bundle("operations")
        in_hand = Bundle("in_hand")

        def __init__(self) -> None:
            super().__init__()
            self.references: dict[str, ReferenceRun] = {}
            self.instance = 0
            self.held_by: dict[str, int] = {"worker-a": 0, "worker-b": 0}
            self.instance_ids: list[str] = []
            self.tokens = 0
            self.receipts: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {}

        @initialize()
        def open_service(self) -> None:
            service.reopen()
            self.instance_ids = [service.instance_id]

        def teardown(self) -> None:
            Run.objects.exclude(status__in=TERMINAL).update(status="cancelled", finished_at=clock.now())

        # -- callers

        def _operate(self, name: str, **arguments: Any) -> tuple[str, dict[str, Any]]:
            identity = {"operationId": str(uuid.uuid4()), "serviceInstanceId": service.instance_id}
            result = service.call(name, **identity, **arguments)
            if "receipt" in result:
                self.receipts[identity["operationId"]] = (name, {**identity, **arguments}, result["receipt"])
            return identity["operationId"], result

        def _check_steered(self, result: dict[str, Any], expected: str) -> None:
            if expected in ("applied", "none"):
                assert result["receipt"]["status"] == "accepted", result
                assert result["receipt"]["effect"] == expected
            else:
                assert result["error"]["code"] == expected, result
                assert result["receipt"]["status"] == "rejected"

        @rule(target=runs, plan=st.lists(ACTS, max_size=5))
        def run(self, plan: list[dict[str, Any]]) -> str:
            _, result = self._operate("run", loomName="trial", input={"do": plan})
            run_id = str(result["run"]["runId"])
            self.references[run_id] = ReferenceRun(plan)
            return run_id

        @rule(target=operations, run_id=runs)
        def pause(self, run_id: str) -> Any:
            operation_id, result = self._operate("pause_run", runId=run_id)
            self._check_steered(result, self.references[run_id].pause(self.instance))
            return operation_id

        @rule(target=operations, run_id=runs, late=st.booleans(), one_step=st.booleans())
        def resume(self, run_id: str, late: bool, one_step: bool) -> Any:
            reference = self.references[run_id]
            expected = max(1, reference.revision - late)
            steps = {"steps": 1} if one_step else {}
            operation_id, result = self._operate("resume_run", runId=run_id, expectedRevision=expected, **steps)
            self._check_steered(result, reference.resume(self.instance, expected, one_step=one_step))
            return operation_id

        @rule(target=operations, run_id=runs)
        def cancel(self, run_id: str) -> Any:
            operation_id, result = self._operate("cancel_run", runId=run_id)
            self._check_steered(result, self.references[run_id].cancel(self.instance))
            return operation_id

        @rule(target=operations, run_id=runs, stale=st.booleans())
        def answer(self, run_id: str, stale: bool) -> Any:
            reference = self.references[run_id]
            pending = service.run(run_id).get("pendingAction")
            assert (pending is not None) == (reference.asks is not None)
            action = str(uuid.uuid4()) if stale or pending is None else pending["id"]
            answer: Any = {"isConfirmed": True}
            if pending is not None and pending["kind"] == "questions":
                answer = [{"questionId": "q", "isSkipped": False, "answer": "yes"}]
            operation_id, result = self._operate("answer_ask", runId=run_id, actionId=action, answer=answer)
            self._check_steered(result, reference.answer(self.instance, stale=stale))
            return operation_id

        @rule(run_id=runs)
        def answer_wrongly(self, run_id: str) -> None:
            pending = service.run(run_id).get("pendingAction")
            if pending is not None:
                _, result = self._operate("answer_ask", runId=run_id, actionId=pending["id"], answer="yes")
                assert result["error"]["code"] == "INVALID_REQUEST"
                assert "receipt" not in result

        @rule(operation_id=operations)
        def send_again(self, operation_id: str) -> None:
            name, arguments, receipt = self.receipts[operation_id]
            result = service.call(name, **arguments)
            if arguments["serviceInstanceId"] != service.instance_id:
                assert result["error"]["code"] == "INSTANCE_CHANGED"
                assert service.call("get_operation", **_identity(arguments)) == {"status": "instance_changed"}
            else:
                assert result["receipt"] == receipt
                assert service.call("get_operation", **_identity(arguments))["receipt"] == receipt

        @rule(operation_id=operations, other=st.uuids())
        def send_changed(self, operation_id: str, other: uuid.UUID) -> None:
            name, arguments, _ = self.receipts[operation_id]
            result = service.call(name, **{**arguments, "runId": str(other)})
            expected = "CONFLICT" if arguments["serviceInstanceId"] == service.instance_id else "INSTANCE_CHANGED"
            assert result["error"]["code"] == expected
            assert "receipt" not in result

        # -- workers

        @rule(target=in_hand, worker=WORKERS)
        def take(self, worker: str) -> Any:
            instance_id = uuid.UUID(self.instance_ids[self.held_by[worker]])
            queued = [r for r in self.references.values() if r.status == "queued"]
            try:
                leased = take_lease(owner=worker, instance_id=instance_id, now=clock.now())
            except InstanceEnded:
                assert self.held_by[worker] != self.instance
                self.held_by[worker] = self.instance
                return multiple()
            assert self.held_by[worker] == self.instance
            if leased is None:
                assert not queued
                return multiple()
            self.tokens += 1
            reference = self.references[str(leased.run_id)]
            reference.dispatch(self.tokens)
            return (leased, reference.execute(), execute(leased))

        @rule(target=in_hand, held=in_hand, keep=st.booleans())
        def bring_back(self, held: Any, keep: bool) -> Any:
            """Land a result; it may be late, or have landed before."""
            leased, predicted, output = held
            assert isinstance(leased, Leased)
            assert isinstance(predicted, Segment)
            reference = self.references[str(leased.run_id)]
            landed = land([SegmentResult(leased, output, keep)], now=clock.now())[0]
            taken = reference.land(predicted, keep=keep, instance=self.instance)
            assert landed.accepted is taken
            assert (landed.next is not None) == (taken and reference.status == "running")
            if landed.next is None:
                return multiple()
            self.tokens += 1
            reference.token = self.tokens
            return (landed.next, reference.execute(), execute(landed.next))

        @precondition(lambda self: any(r.status == "running" for r in self.references.values()))
        @rule(data=st.data())
        def lose_a_worker(self, data: st.DataObject) -> None:
            running = sorted(run_id for run_id, r in self.references.items() if r.status == "running")
            run_id = data.draw(st.sampled_from(running))
            Run.objects.filter(pk=run_id).update(lease_expires_at=database_time_after(-1))
            assert sweep(now=clock.now()).interrupted == 1
            assert sweep(now=clock.now()).interrupted == 0
            self.references[run_id].lose_worker(self.instance)

        @rule()
        def restart(self) -> None:
            for reference in self.references.values():
                if reference.status == "running":
                    reference.lose_worker(self.instance)
            service.reopen()
            self.instance += 1
            self.instance_ids.append(service.instance_id)

        # -- what must hold at any time

        @invariant()
        def views_are_as_the_rules_have_them(self) -> None:
            for run_id, reference in self.references.items():
                view = service.run(run_id)
                assert {
                    "status": view["status"],
                    "revision": view["revision"],
                    "cursor": view["cursor"],
                    "pauseRequested": view["pauseRequested"],
                    "boundary": view["boundary"],
                    "outcome": view.get("outcome"),
                    "error": view.get("lastError", {}).get("code"),
                    "historical": view["historical"],
                } == {
                    "status": reference.status,
                    "revision": reference.revision,
                    "cursor": {"stage": reference.stage, "step": reference.step, "visit": reference.visit},
                    "pauseRequested": reference.pause_requested,
                    "boundary": reference.boundary,
                    "outcome": reference.outcome,
                    "error": reference.error,
                    "historical": reference.status in TERMINAL and reference.ended_in != self.instance,
                }, run_id

        @invariant()
        def history_has_no_gap_and_no_second_result(self) -> None:
            for run_id, reference in self.references.items():
                numbers = list(Event.objects.filter(run_id=run_id).order_by("seq").values_list("seq", "at"))
                assert [seq for seq, _ in numbers] == list(range(1, len(numbers) + 1))
                assert [at for _, at in numbers] == sorted(at for _, at in numbers)
                attempts = StepAttempt.objects.filter(run_id=run_id).order_by("step_seq")
                assert list(attempts.values_list("status", flat=True)) == reference.attempt_statuses

    return LedgerAgainstReference


def _identity(arguments: dict[str, Any]) -> dict[str, Any]:
    return {name: arguments[name] for name in ("operationId", "serviceInstanceId")}


@pytest.mark.timeout(300)
@pytest.mark.rule(
    "O1",
    "O2",
    "O3",
    "O4",
    "O6",
    "O7",
    "R1",
    "R2",
    "R4",
    "R6",
    "R7",
    "R9",
    "R10",
    "R11",
    "R12",
    "R13",
    "R16",
    "H3",
    "H7",
)
def test_the_ledger_does_what_the_reference_says(service: Service) -> None:
    from hypothesis.stateful import run_state_machine_as_test

    run_state_machine_as_test(
        machine_for(service),
        settings=settings(
            max_examples=60,
            stateful_step_count=30,
            deadline=None,
            # Shrinking a failure takes minutes; a run that only asks whether there is one goes without.
            phases=[p for p in Phase if p is not Phase.shrink or "LOOMSVC_NO_SHRINK" not in os.environ],
            suppress_health_check=list(HealthCheck),
        ),
    )
