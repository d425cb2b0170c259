"""Workers that die, run out of memory, are stopped or belong to the past."""

from __future__ import annotations

import os
import re
import resource
import shutil
import signal
import time
import uuid
from pathlib import Path

import pytest

from tests.acceptance.conftest import Scene
from tests.acceptance.scaled import LEASE_SECONDS, RECOVERY_SECONDS, eventually, lines

POOLS = ["prefork", "threads"]


def begun(effects: Path, number: int = 1) -> None:
    eventually(lambda: len(lines(effects)) >= number, within=20, what=f"{number} Steps have begun")


@pytest.mark.rule("F1", "FR-A5", "R13", "K25")
def test_a_step_that_kills_its_process_is_interrupted_and_other_slots_go_on(scene: Scene) -> None:
    scene.deployment.sweep()
    worker = scene.deployment.worker(slots=2)
    gate = scene.folder / "gate"
    neighbour = scene.client.start(do=[{"until": str(gate)}], effects=str(scene.effects))
    begun(scene.effects)
    killed = scene.client.start(do=[{"ending": "kill"}], effects=str(scene.effects))
    run = scene.client.reaches(killed, "failed")
    assert run["lastError"]["code"] == "RUN_INTERRUPTED"
    assert [a["status"] for a in scene.client.attempts(killed)] == ["indeterminate"]
    assert len([line for line in lines(scene.effects) if line[0] == killed]) == 1
    # The neighbour's lease was renewed all the while; the replaced slot takes work again.
    assert scene.client.run(neighbour)["status"] == "running"
    assert scene.client.reaches(scene.client.start(), "completed")
    gate.touch()
    assert scene.client.reaches(neighbour, "completed")
    # The pool's own log lines, too, go through the one formatter and filter.
    said = next(line for line in worker.text().splitlines() if "exited with" in line)
    assert re.match(r"\d{4}-\d\d-\d\dT[\d:.]+Z ERROR multiprocessing ", said)


@pytest.mark.rule("F1", "R12", "R13")
def test_a_step_that_may_be_repeated_is_repeated_after_its_worker_was_lost(scene: Scene) -> None:
    scene.deployment.sweep()
    scene.deployment.worker(slots=2)
    run_id = scene.client.start(do=[{"ending": "other"}, {"kills": 1}], effects=str(scene.effects))
    run = scene.client.reaches(run_id, "completed", "failed")
    assert run["status"] == "completed", run
    assert [(a["step"], a["attempt"], a["status"]) for a in scene.client.attempts(run_id)] == [
        ("act", 1, "completed"), ("rerunnable", 1, "indeterminate"), ("rerunnable", 2, "completed"),
    ]  # fmt: skip
    assert [line[1:3] for line in lines(scene.effects)] == [
        ["act/1", "1"],
        ["rerunnable/1", "1"],
        ["rerunnable/1", "2"],
    ]
    assert "StepInterrupted" in scene.client.events(run_id)


@pytest.mark.rule("F2")
def test_a_worker_that_dies_after_its_commit_repeats_nothing(scene: Scene) -> None:
    run_id = scene.client.start(do=[{"ending": "again"}, {"ending": "leave"}], effects=str(scene.effects))
    broker = scene.deployment.broker.client
    message = eventually(lambda: broker.lrange("loomsvc", 0, -1), within=10, what="the bell was rung")[0]
    failing = scene.deployment.worker(slots=1, LOOMSVC_FAILPOINT="after_commit_before_ack:kill")
    failing.said("exited with")
    assert scene.client.events(run_id)[:3] == ["RunAdmitted", "RunDispatched", "StageInitialized"]
    failing.kill()
    scene.deployment.sweep()
    scene.deployment.worker(slots=1)
    for _ in range(2):
        broker.lpush("loomsvc", message)
    # What was committed stands.  The Step that was begun in the same transaction never ran; nobody can know.
    run = scene.client.reaches(run_id, "failed")
    assert run["lastError"]["code"] == "RUN_INTERRUPTED"
    assert [a["status"] for a in scene.client.attempts(run_id)] == ["indeterminate"]
    assert scene.client.events(run_id).count("StageInitialized") == 1
    assert lines(scene.effects) == []


@pytest.mark.rule("F3")
@pytest.mark.parametrize("pool", POOLS)
def test_a_step_without_memory_fails_alone(scene: Scene, pool: str) -> None:
    gate = scene.folder / "gate"
    worker = scene.deployment.worker(pool=pool, slots=2)
    limit = 4 << 30
    for pid in [worker.pid, *worker.children()]:
        resource.prlimit(pid, resource.RLIMIT_AS, (limit, limit))
    neighbour = scene.client.start(do=[{"until": str(gate)}], effects=str(scene.effects))
    begun(scene.effects)
    greedy = scene.client.start(do=[{"allocate": 2 * limit}], effects=str(scene.effects))
    raising = scene.client.start(do=[{"failures": 9, "error": "MemoryError"}], effects=str(scene.effects))
    for run_id in (greedy, raising):
        run = scene.client.reaches(run_id, "failed")
        assert run["lastError"]["code"] == "STEP_FAILED"
        assert "MemoryError" in run["lastError"]["message"]
    assert scene.client.reaches(scene.client.start(), "completed")
    gate.touch()
    assert scene.client.reaches(neighbour, "completed")


@pytest.mark.rule("F4")
def test_a_late_commit_after_the_supervisor_was_killed_is_refused_by_the_fence(scene: Scene) -> None:
    gate = scene.folder / "gate"
    scene.deployment.sweep()
    worker = scene.deployment.worker(slots=1)
    run_id = scene.client.start(do=[{"outlive": True, "until": str(gate)}], effects=str(scene.effects))
    begun(scene.effects)
    child = int(lines(scene.effects)[0][3])
    assert child in worker.children()
    worker.send(signal.SIGKILL)
    worker.ended(within=10)
    verdict = scene.client.reaches(run_id, "failed")
    assert verdict["lastError"]["code"] == "RUN_INTERRUPTED"
    assert Path(f"/proc/{child}").exists(), "the child was to live on"
    gate.touch()
    eventually(lambda: "a late result" in worker.text(), within=15, what="the child's late result is refused")
    eventually(lambda: not Path(f"/proc/{child}").exists(), within=15, what="the orphan ends")
    assert scene.client.run(run_id) == verdict
    assert [a["status"] for a in scene.client.attempts(run_id)] == ["indeterminate"]


@pytest.mark.rule("F5")
def test_a_frozen_worker_comes_back_too_late(scene: Scene) -> None:
    gate = scene.folder / "gate"
    scene.deployment.sweep()
    worker = scene.deployment.worker(slots=1)
    run_id = scene.client.start(do=[{"until": str(gate)}], effects=str(scene.effects))
    begun(scene.effects)
    family = [*worker.children(), worker.pid]
    for pid in family:
        os.kill(pid, signal.SIGSTOP)
    verdict = scene.client.reaches(run_id, "failed")
    gate.touch()
    for pid in family:
        os.kill(pid, signal.SIGCONT)
    eventually(lambda: "a late result" in worker.text(), within=15, what="the late result is refused")
    assert scene.client.run(run_id) == verdict
    assert scene.client.reaches(scene.client.start(), "completed")


@pytest.mark.rule("F23")
@pytest.mark.parametrize("pool", POOLS)
def test_a_worker_that_is_told_to_stop_lands_the_steps_that_run_and_begins_no_other(scene: Scene, pool: str) -> None:
    gate = scene.folder / "gate"
    scene.deployment.sweep()
    worker = scene.deployment.worker(pool=pool, slots=2)
    plan = {"do": [{"ending": "again", "until": str(gate)}, {}], "effects": str(scene.effects)}
    runs = [scene.client.start(**plan) for _ in range(2)]
    begun(scene.effects, 2)
    worker.send(signal.SIGTERM)
    worker.said("Warm shutdown")
    # Longer than a lease: a worker that is stopping still renews what it holds.
    told = time.monotonic()
    eventually(lambda: time.monotonic() > told + LEASE_SECONDS + 1, within=LEASE_SECONDS + 2, what="a lease has passed")
    assert [scene.client.run(run_id)["status"] for run_id in runs] == ["running", "running"]
    gate.touch()
    assert worker.ended(within=20) == 0
    for run_id in runs:
        assert scene.client.run(run_id)["status"] == "queued"
        assert [(a["status"], a["outcome"]) for a in scene.client.attempts(run_id)] == [("completed", "again")]
    assert len(lines(scene.effects)) == 2
    scene.deployment.worker(pool=pool, slots=2)
    for run_id in runs:
        assert scene.client.reaches(run_id, "completed")


@pytest.mark.rule("F23", "R14")
def test_a_running_run_keeps_its_release_while_its_loom_changes(scene: Scene) -> None:
    gate = scene.folder / "gate"
    folder = scene.deployment.looms / "changing"
    shutil.copytree(scene.deployment.looms / "trial", folder)
    manifest = folder / "loom.yaml"
    manifest.write_text(manifest.read_text().replace("loom: trial", "loom: changing"))
    worker = scene.deployment.worker(slots=1)
    plan = {"do": [{"ending": "again", "until": str(gate)}, {}], "effects": str(scene.effects)}
    old = scene.client.start("changing", **plan)
    begun(scene.effects)
    steps = folder / "steps.py"
    steps.write_text(steps.read_text().replace("    return do.ending\n", '    return "surprise"\n'))
    new = scene.client.start("changing")
    gate.touch()
    assert scene.client.reaches(old, "completed")
    ended = scene.client.reaches(new, "failed", "completed")
    assert ended["lastError"]["code"] == "STEP_OUTCOME_NOT_HANDLED"
    assert scene.client.run(old)["releaseDigest"] != ended["releaseDigest"]
    # A worker that never saw the old folder runs the old Release from the ledger.
    gate.unlink()
    shutil.copy(scene.deployment.looms / "trial" / "steps.py", steps)
    before = scene.client.start("changing", **plan)
    begun(scene.effects, 3)
    worker.send(signal.SIGTERM)
    steps.write_text(steps.read_text().replace("    return do.ending\n", '    return "surprise"\n'))
    gate.touch()
    worker.ended(within=20)
    scene.deployment.worker(slots=1)
    scene.deployment.sweep()
    assert scene.client.reaches(before, "completed", "failed")["status"] == "completed"


@pytest.mark.rule("R4", "R13", "O2", "O7", "O8")
@pytest.mark.parametrize("pool", POOLS)
def test_a_new_instance_interrupts_what_was_in_flight_and_old_workers_leave(scene: Scene, pool: str) -> None:
    gate = scene.folder / "gate"
    client, old_instance = scene.client, scene.client.instance_id()
    worker = scene.deployment.worker(pool=pool, slots=2)
    operation = str(uuid.uuid4())
    plan = {"do": [{"until": str(gate)}], "effects": str(scene.effects)}
    started = client.operate("run", operationId=operation, loomName="trial", input=plan)
    run_id = started["run"]["runId"]
    begun(scene.effects)
    scene.deployment.command("instance_open")
    # Rung for at once, while the old worker has a free slot and may not have heard yet.
    resting = client.start(effects=str(scene.effects))
    run = client.run(run_id)
    assert (run["status"], run["lastError"]["code"], run["historical"]) == ("failed", "RUN_INTERRUPTED", True)
    assert client.tool("get_operation", operationId=operation, serviceInstanceId=old_instance) == {
        "status": "instance_changed"
    }
    found = client.tool("find_run", operationId=operation, serviceInstanceId=old_instance)
    assert found["run"]["runId"] == run_id
    refused = client.operate("run", serviceInstanceId=old_instance, loomName="trial", input={})
    assert refused["error"]["code"] == "INSTANCE_CHANGED"
    # The old worker takes nothing more, lands nothing, and goes.
    worker.said("started anew")
    gate.touch()
    worker.ended(within=2 * LEASE_SECONDS + 5)
    assert client.run(run_id) == run
    assert client.run(resting)["status"] == "queued"
    assert [line[0] for line in lines(scene.effects)] == [run_id]
    scene.deployment.worker(pool=pool, slots=1)
    scene.deployment.sweep()
    assert client.reaches(resting, "completed")["historical"] is False


@pytest.mark.rule("R13")
def test_an_old_worker_whose_step_never_ends_leaves_all_the_same(scene: Scene) -> None:
    worker = scene.deployment.worker(slots=1)
    scene.client.start(do=[{"until": str(scene.folder / "never")}], effects=str(scene.effects))
    begun(scene.effects)
    children = worker.children()
    scene.deployment.command("instance_open")
    worker.ended(within=3 * LEASE_SECONDS + 5)
    eventually(
        lambda: not any(Path(f"/proc/{pid}").exists() for pid in children), within=5, what="its children are gone"
    )


@pytest.mark.rule("R9", "R10")
@pytest.mark.parametrize("pool", POOLS)
def test_a_run_paused_during_a_step_resumes_without_repeating_it(scene: Scene, pool: str) -> None:
    gate = scene.folder / "gate"
    scene.deployment.worker(pool=pool, slots=1)
    run_id = scene.client.start(do=[{"until": str(gate)}], effects=str(scene.effects))
    begun(scene.effects)
    asked = scene.client.operate("pause_run", runId=run_id)
    assert asked["receipt"]["status"] == "accepted"
    assert asked["run"]["pauseRequested"] is True
    gate.touch()
    paused = scene.client.reaches(run_id, "paused")
    resumed = scene.client.operate("resume_run", runId=run_id, expectedRevision=paused["revision"])
    assert resumed["run"]["status"] == "completed"
    assert len(lines(scene.effects)) == 1


def _tcp_sockets(pid: int) -> set[str]:
    """Inodes of the TCP sockets that a process has open."""
    table = {
        row.split()[9]
        for name in ("tcp", "tcp6")
        for row in Path(f"/proc/{pid}/net/{name}").read_text().splitlines()[1:]
    }
    open_files = {os.readlink(f"/proc/{pid}/fd/{name}") for name in os.listdir(f"/proc/{pid}/fd")}
    return {inode for inode in table if f"socket:[{inode}]" in open_files}


@pytest.mark.rule("FR-G3")
def test_no_socket_is_shared_between_a_worker_and_its_children(scene: Scene) -> None:
    gate = scene.folder / "gate"
    worker = scene.deployment.worker(slots=2)
    first = worker.children()
    # One child is lost and replaced while the parent's connections are open.
    killed = scene.client.start(do=[{"ending": "kill"}], effects=str(scene.effects))
    worker.said("exited with")
    scene.client.operate("cancel_run", runId=killed)
    eventually(lambda: len(worker.children()) == 2, within=10, what="the lost child is replaced")
    runs = [scene.client.start(do=[{"until": str(gate)}], effects=str(scene.effects)) for _ in range(2)]
    begun(scene.effects, 3)
    children = worker.children()
    assert len(children) == 2
    assert set(children) != set(first)
    sockets = {pid: _tcp_sockets(pid) for pid in [worker.pid, *children]}
    assert all(sockets.values()), f"each has connections of its own: {sockets}"
    assert sum(map(len, sockets.values())) == len(set().union(*sockets.values())), sockets
    gate.touch()
    for run_id in runs:
        assert scene.client.reaches(run_id, "completed", within=RECOVERY_SECONDS)


@pytest.mark.rule("F1")
@pytest.mark.parametrize("pool", POOLS)
def test_both_pools_run_the_same_looms(scene: Scene, pool: str) -> None:
    scene.deployment.worker(pool=pool, slots=2)
    plan = {"do": [{"ending": "again"}, {"failures": 2, "ending": "leave"}], "effects": str(scene.effects)}
    runs = [scene.client.start(**plan) for _ in range(6)]
    for run_id in runs:
        assert scene.client.reaches(run_id, "completed", "failed")["status"] == "completed"
        ended = [(a["step"], a["attempt"], a["status"]) for a in scene.client.attempts(run_id)]
        assert ended == [
            ("act", 1, "completed"), ("act", 1, "failed"), ("act", 2, "failed"), ("act", 3, "completed"),
            ("close", 1, "completed"),
        ]  # fmt: skip
