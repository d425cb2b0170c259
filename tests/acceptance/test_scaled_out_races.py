"""Several clients, workers and sweeps at one thing at one moment."""

from __future__ import annotations

import signal
import threading
import uuid
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.acceptance.auditor import only_grew, snapshot
from tests.acceptance.conftest import Scene
from tests.acceptance.scaled import LEASE_SECONDS, RECOVERY_SECONDS, Client, Reply, eventually, lines
from tests.chances import chance, rounds

ROUNDS = rounds(100)


def tool_over_http(client: Client, name: str, arguments: dict[str, Any]) -> Reply:
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": arguments}}
    return client.http("POST", "/internal/mcp", message, source="cli")


@pytest.mark.rule("F20", "FR-C3", "O3")
def test_fifty_clients_with_one_operation_id_make_one_run(scene: Scene) -> None:
    webs = scene.deployment.webs
    arguments = {
        "operationId": str(uuid.uuid4()), "serviceInstanceId": scene.client.instance_id(),
        "loomName": "trial", "input": {"effects": str(scene.effects)},
    }  # fmt: skip
    barrier = threading.Barrier(50)

    def submit(number: int) -> Reply:
        barrier.wait(30)
        return tool_over_http(webs[number % 2], "run", arguments)

    with ThreadPoolExecutor(50) as pool:
        replies = list(pool.map(submit, range(50)))
    assert {reply.status for reply in replies} == {200}
    first = [reply.body["result"]["structuredContent"]["receipt"] for reply in replies]
    assert {receipt["status"] for receipt in first} <= {"pending", "accepted"}
    runs = {receipt.get("runId") for receipt in first if receipt["status"] == "accepted"}
    assert len(runs) == 1
    assert scene.deployment.sql(
        "SELECT count(*) FROM runs_run WHERE origin_operation_id = %s", arguments["operationId"]
    ) == [(1,)]
    # Asked again, all get the same receipt.
    with ThreadPoolExecutor(10) as pool:
        again = list(pool.map(lambda n: webs[n % 2].tool("run", **arguments)["receipt"], range(50)))
    assert all(receipt == again[0] for receipt in again)
    assert again[0]["status"] == "accepted"
    # Any other parameter is a conflict and changes nothing.
    other = {**arguments, "input": {"effects": "elsewhere"}}
    for web in webs:
        assert web.tool("run", **other)["error"]["code"] == "CONFLICT"
    assert webs[1].tool("run", **arguments)["receipt"] == again[0]
    scene.deployment.worker(slots=2)
    assert scene.client.reaches(runs.pop(), "completed")
    assert [line[1] for line in lines(scene.effects)] == ["act/1"]


@pytest.mark.rule("F13", "F21", "FR-G5", "R11")
@pytest.mark.timeout(60 + 5 * ROUNDS)
def test_cancel_against_completion_has_one_end_each_time(scene: Scene) -> None:
    moments = chance("cancel/completion")
    delays = [moments.uniform(0, 0.04) for _ in range(ROUNDS)]
    scene.deployment.sweep()
    scene.deployment.worker(slots=4)
    scene.deployment.worker(pool="threads", slots=4)
    instance = scene.client.instance_id()

    def race(number: int) -> str:
        client = scene.deployment.webs[number % 2]
        gate = scene.folder / f"gate-{number}"
        plan = {"do": [{"until": str(gate), "record": f"race-{number}"}], "effects": str(scene.effects)}
        identity = {"operationId": str(uuid.uuid4()), "serviceInstanceId": instance}
        run_id = client.tool("run", **identity, loomName="trial", input=plan)["run"]["runId"]
        eventually(lambda: any(line[0] == run_id for line in lines(scene.effects)), within=40, what="the Step runs")
        # A cancel is on its way for some milliseconds: the Step may end before, while or after it arrives.
        opening = threading.Timer(delays[number], gate.touch)
        identity = {"operationId": str(uuid.uuid4()), "serviceInstanceId": instance}
        opening.start()
        result = client.tool("cancel_run", **identity, runId=run_id)
        assert "error" not in result, result
        assert result["receipt"]["status"] == "accepted"
        end = result["run"]["status"]
        opening.join()
        assert end == ("cancelled" if result["receipt"]["effect"] == "applied" else "completed"), result
        return end

    with ThreadPoolExecutor(6) as pool:
        ends = list(pool.map(race, range(ROUNDS)))
    print(Counter(ends))
    assert set(ends) == {"cancelled", "completed"}, "each was to win sometimes"
    recorded = {
        name for (name,) in scene.deployment.sql("SELECT record_id FROM results_record WHERE record_id LIKE 'race-%%'")
    }
    # What a Run staged is there exactly when it was completed: one legal state, nothing half.
    assert recorded == {f"race-{number}" for number, end in enumerate(ends) if end == "completed"}


@pytest.mark.rule("F13", "F21")
def test_two_cancels_of_the_same_runs_in_opposite_order_hurt_no_client(scene: Scene) -> None:
    runs = [scene.client.start() for _ in range(12)]

    def cancel_all(client: Client, order: list[str]) -> list[dict[str, Any]]:
        return [client.operate("cancel_run", runId=run_id) for run_id in order]

    with ThreadPoolExecutor(2) as pool:
        there = pool.submit(cancel_all, scene.deployment.webs[0], runs)
        back = pool.submit(cancel_all, scene.deployment.webs[1], runs[::-1])
        results = [*there.result(), *back.result()]
    assert {result["receipt"]["status"] for result in results} == {"accepted"}
    assert Counter(result["receipt"]["effect"] for result in results) == {"applied": 12, "none": 12}


@pytest.mark.rule("FR-A7", "FR-A9", "R11", "FR-B3")
def test_runs_that_are_cancelled_while_no_worker_is_there_never_start(scene: Scene) -> None:
    runs = [scene.client.start(effects=str(scene.effects)) for _ in range(10)]
    for run_id in runs:
        assert scene.client.operate("cancel_run", runId=run_id)["run"]["status"] == "cancelled"
    scene.deployment.sweep()
    scene.deployment.worker(slots=2)
    assert scene.client.reaches(scene.client.start(), "completed")
    assert {scene.client.run(run_id)["status"] for run_id in runs} == {"cancelled"}
    assert lines(scene.effects) == []
    assert all(scene.client.events(run_id) == ["RunAdmitted", "RunCancelled"] for run_id in runs)


@pytest.mark.rule("FR-A7", "FR-B1")
def test_cancelling_a_burst_ends_each_of_it_and_starts_no_more(scene: Scene) -> None:
    gate = scene.folder / "gate"
    scene.deployment.worker(slots=2)
    runs = [scene.client.start(do=[{"until": str(gate)}], effects=str(scene.effects)) for _ in range(10)]
    eventually(lambda: len(lines(scene.effects)) == 2, within=20, what="two Steps run")
    for run_id in runs:
        scene.client.operate("cancel_run", runId=run_id)
    gate.touch()
    assert scene.client.reaches(scene.client.start(), "completed")
    assert {scene.client.run(run_id)["status"] for run_id in runs} == {"cancelled"}
    assert len(lines(scene.effects)) == 2


@pytest.mark.rule("F24", "FR-A13", "FR-A19")
def test_a_sweep_that_dies_half_way_holds_up_no_other_and_two_at_once_interrupt_once(scene: Scene) -> None:
    before = snapshot(scene.deployment.database_url)
    gate = scene.folder / "gate"
    worker = scene.deployment.worker(slots=1)
    plan = {"do": [{"ending": "other", "record": "kept"}, {"until": str(gate)}], "effects": str(scene.effects)}
    run_id = scene.client.start(**plan)
    eventually(lambda: len(lines(scene.effects)) == 2, within=20, what="the Step runs")
    worker.kill()
    gate.touch()
    dying = scene.deployment.sweep(LOOMSVC_FAILPOINT="in_sweep:kill")
    assert dying.ended(within=LEASE_SECONDS + 15) == -signal.SIGKILL
    assert scene.client.run(run_id)["status"] == "running"
    for _ in range(2):
        scene.deployment.sweep()
    scene.client.reaches(run_id, "queued")
    scene.deployment.worker(slots=1)
    scene.client.reaches(run_id, "completed", within=RECOVERY_SECONDS)
    assert scene.client.events(run_id).count("StepInterrupted") == 1
    assert [(a["attempt"], a["status"]) for a in scene.client.attempts(run_id) if a["step"] == "rerunnable"] == [
        (1, "indeterminate"),
        (2, "completed"),
    ]
    only_grew(before, snapshot(scene.deployment.database_url))
