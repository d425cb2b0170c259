"""The broker is a bell: what it loses, doubles, delays or logs harms nothing."""

from __future__ import annotations

import base64
import json
import threading
import time
import uuid
from urllib.parse import quote

import pytest

from tests.acceptance.conftest import Scene
from tests.acceptance.scaled import eventually, free_port, lines


def waiting_messages(scene: Scene) -> list[bytes]:
    return scene.deployment.broker.client.lrange("loomsvc", 0, -1)


@pytest.mark.rule("F6", "FR-A1", "FR-A3")
def test_the_same_message_by_hand_while_its_step_runs_makes_no_second_attempt(scene: Scene) -> None:
    gate = scene.folder / "gate"
    run_id = scene.client.start(do=[{"until": str(gate)}], effects=str(scene.effects))
    message = eventually(lambda: waiting_messages(scene), within=10, what="the bell was rung")[0]
    scene.deployment.worker(slots=2)
    eventually(lambda: lines(scene.effects), within=20, what="the Step has begun")
    for _ in range(5):
        scene.deployment.broker.client.lpush("loomsvc", message)
    eventually(lambda: not waiting_messages(scene), within=10, what="the copies were taken")
    # Another Run through the same slots shows that the copies were dealt with.
    assert scene.client.reaches(scene.client.start(), "completed")
    assert len(lines(scene.effects)) == 1
    gate.touch()
    assert scene.client.reaches(run_id, "completed")
    scene.deployment.broker.client.lpush("loomsvc", message)
    assert scene.client.reaches(scene.client.start(), "completed")
    assert len([line for line in lines(scene.effects) if line[1] == "act/1"]) == 1
    assert [a["status"] for a in scene.client.attempts(run_id)] == ["completed"]


@pytest.mark.rule("F6", "FR-A3")
def test_a_step_longer_than_the_visibility_timeout_runs_once(scene: Scene) -> None:
    gate = scene.folder / "gate"
    scene.deployment.worker(slots=2)
    run_id = scene.client.start(do=[{"until": str(gate)}], effects=str(scene.effects))
    eventually(lambda: lines(scene.effects), within=20, what="the Step has begun")
    broker = scene.deployment.broker.client
    tags = broker.zrange("unacked_index", 0, -1)
    assert tags, "the message is held until its Step has ended"
    for tag in tags:
        broker.zadd("unacked_index", {tag: 0})  # delivered ages ago: past any visibility timeout
    # A worker looks for such messages ten seconds after its start, then every hundred.
    scene.deployment.worker(slots=2)
    eventually(
        lambda: 0.0 not in [broker.zscore("unacked_index", tag) for tag in tags], within=30, what="delivered anew"
    )
    assert scene.client.reaches(scene.client.start(), "completed")
    gate.touch()
    assert scene.client.reaches(run_id, "completed")
    assert len(lines(scene.effects)) == 1


@pytest.mark.rule("F7")
def test_a_broker_that_lost_everything_delays_runs_and_loses_none(scene: Scene) -> None:
    runs = [scene.client.start(do=[{"ending": "again"}, {}], effects=str(scene.effects)) for _ in range(20)]
    eventually(lambda: len(waiting_messages(scene)) >= 20, within=10, what="the bell was rung for each")
    scene.deployment.broker.client.flushall()
    scene.deployment.worker(slots=2)
    assert scene.deployment.sql("SELECT count(*) FROM runs_run WHERE status = 'queued'") == [(20,)]
    scene.deployment.sweep()
    for run_id in runs:
        assert scene.client.reaches(run_id, "completed", "failed", within=60)["status"] == "completed"
    made = [tuple(line[:3]) for line in lines(scene.effects)]
    assert len(made) == len(set(made)) == 40


@pytest.mark.rule("F8")
def test_a_worker_consumes_again_after_its_connections_were_cut(scene: Scene) -> None:
    scene.deployment.sweep()
    scene.deployment.worker(slots=1)
    for _ in range(3):
        for kind in ("normal", "pubsub"):
            scene.deployment.broker.client.execute_command("CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes")
        time.sleep(0.3)
    run_id = scene.client.start(effects=str(scene.effects))
    assert scene.client.reaches(run_id, "completed", within=60)


@pytest.mark.rule("F9")
def test_a_run_is_accepted_at_once_while_the_broker_hangs(scene: Scene) -> None:
    scene.deployment.sweep()
    scene.deployment.worker(slots=1)
    broker = scene.deployment.broker.client
    hanging = threading.Thread(target=lambda: broker.execute_command("DEBUG", "SLEEP", "5"))
    hanging.start()
    instance = scene.client.instance_id()
    runs, took = [], []
    for _ in range(3):
        began = time.monotonic()
        result = scene.client.operate(
            "run", serviceInstanceId=instance, loomName="trial", input={"effects": str(scene.effects)}
        )
        took.append(time.monotonic() - began)
        assert result["receipt"]["status"] == "accepted"
        runs.append(result["run"]["runId"])
    assert hanging.is_alive(), "the broker was to hang all the while"
    assert max(took) < 2, took
    hanging.join()
    for run_id in runs:
        assert scene.client.reaches(run_id, "completed")


@pytest.mark.rule("F9")
def test_a_run_is_accepted_at_once_while_the_broker_is_full(scene: Scene) -> None:
    broker = scene.deployment.broker.client
    broker.config_set("maxmemory-policy", "noeviction")
    broker.config_set("maxmemory", "1mb")
    try:
        began = time.monotonic()
        run_id = scene.client.start(effects=str(scene.effects))
        assert time.monotonic() - began < 2
        assert scene.client.run(run_id)["status"] == "queued"
    finally:
        broker.config_set("maxmemory", "0")
    scene.deployment.worker(slots=1)
    scene.deployment.sweep()
    assert scene.client.reaches(run_id, "completed")


def _shapes(secret: str) -> list[str]:
    return [secret, quote(secret, ""), base64.b64encode(secret.encode()).decode().rstrip("=")]


@pytest.mark.rule("FR-H15", "E6", "K18")
def test_the_password_of_an_unreachable_broker_is_in_no_log(scene: Scene) -> None:
    secret = f"s3ntinel/+{uuid.uuid4().hex}"
    unreachable = f"redis://:{quote(secret, '')}@127.0.0.1:{free_port()}/0"
    environment = {"REDIS_URL": unreachable, "LOOMSVC_LOG_LEVEL": "DEBUG"}
    client = scene.deployment.web(**environment)
    scene.deployment.sweep(**environment)
    worker = scene.deployment.worker_unready(pool="prefork", slots=1, level="DEBUG", REDIS_URL=unreachable)
    run_id = client.start(effects=str(scene.effects))
    web, sweep = scene.deployment.processes[-3], scene.deployment.processes[-2]
    worker.said("Cannot connect")
    web.said("the broker could not be reached")
    sweep.said("the broker could not be reached")
    for process in (web, sweep, worker):
        text = process.text()
        assert "DEBUG" in text, f"{process.name} was to log at debug level"
        for shape in _shapes(secret):
            assert shape not in text, f"{process.name} logged the broker's password"
    assert json.dumps(secret) not in json.dumps(client.tool("get_run", runId=run_id))
    assert client.operate("cancel_run", runId=run_id)["receipt"]["status"] == "accepted"
