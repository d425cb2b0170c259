"""``loomsvc up`` as its user meets it."""

# ruff: noqa: F811 - the fixture comes from local_service
from __future__ import annotations

import os
import signal
import socket
import sqlite3
import stat
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest
from local_service import Services, Up, loomsvc, services  # noqa: F401


def busy(up: Up, seconds: float) -> str:
    """A Run whose Step is under way for ``seconds``."""
    run_id = up.start("trial", {"do": [{"seconds": seconds}]})
    up.until(run_id, "running")
    return run_id


def begin(instance: str) -> dict[str, Any]:
    """The arguments that start a Run."""
    return {"loomName": "trial", "input": {}, "operationId": str(uuid.uuid4()), "serviceInstanceId": instance}


def token_of(up: Up, entry: str) -> str:
    return str(up.connection["entries"][entry]["token"])


def post(url: str, token: str, body: Any, headers: dict[str, str] | None = None) -> tuple[int, Any]:
    """Status and JSON of an answer, whatever its status."""
    sent = {"Authorization": f"Bearer {token}", **(headers or {})}
    answer = httpx.post(url, json=body, headers=sent, timeout=20, trust_env=False)
    return answer.status_code, answer.json()


@pytest.mark.rule("N2", "N4")
def test_a_first_start_shows_the_operator_once_and_keeps_credentials_across_restarts(
    services: Services, tmp_path: Path
) -> None:
    first = services.up(tmp_path / "data")
    assert [event["event"] for event in first.events] == ["operator", "ready"]
    assert first.events[0]["username"] == "operator"
    before = first.connection
    assert set(before) == {"url", "serviceInstanceId", "pid", "entries"}
    assert before["pid"] == first.process.pid
    assert before["url"] == first.url
    assert stat.S_IMODE((first.folder / "connection.json").stat().st_mode) == 0o600
    assert stat.S_IMODE(first.folder.stat().st_mode) == 0o700
    first.stop()

    again = services.up(tmp_path / "data")
    assert [event["event"] for event in again.events] == ["ready"]
    after = again.connection
    assert after["entries"] == before["entries"]
    assert after["serviceInstanceId"] != before["serviceInstanceId"]
    assert stat.S_IMODE((again.folder / "connection.json").stat().st_mode) == 0o600


def test_it_says_nothing_but_its_events_and_ends_by_itself(services: Services, tmp_path: Path) -> None:
    up = services.up(tmp_path / "data")
    code, seconds = up.stop()
    assert code == 0
    assert seconds < 2
    out, err = up.process.communicate()
    assert out == ""
    assert err == ""


def test_a_second_start_on_the_folder_is_refused_and_names_the_first(services: Services, tmp_path: Path) -> None:
    first = services.up(tmp_path / "data")
    second = first.command("up", "--port", "0")
    assert second.returncode == 1
    assert f"process {first.process.pid}" in second.stderr
    assert "--data" in second.stderr
    assert "Traceback" not in second.stderr
    assert first.rest("/api/v1/status")["service"]["instanceId"] == first.events[-1]["serviceInstanceId"]


@pytest.mark.rule("K8")
@pytest.mark.parametrize("host", ["0.0.0.0", "::", "example.org"])
def test_listening_beyond_this_machine_is_refused_before_anything_is_made(host: str, tmp_path: Path) -> None:
    refused = loomsvc("up", "--host", host, "--port", "0", "--data", str(tmp_path / "data"))
    assert refused.returncode == 1
    assert "--allow-remote" in refused.stderr
    assert not (tmp_path / "data" / "ledger.sqlite3").exists()
    assert not (tmp_path / "data" / "connection.json").exists()


@pytest.mark.rule("K8")
def test_it_listens_on_loopback_only(services: Services, tmp_path: Path) -> None:
    up = services.up(tmp_path / "data")
    port = int(up.url.rpartition(":")[2])
    listening = [
        line.split()[1]
        for name in ("tcp", "tcp6")
        for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]
        if line.split()[3] == "0A" and int(line.split()[1].rpartition(":")[2], 16) == port
    ]
    assert listening == [f"0100007F:{port:04X}"]


def test_a_taken_port_is_said_plainly(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        refused = loomsvc("up", "--port", port, "--data", str(tmp_path / "data"))
    assert refused.returncode == 1
    assert f"Cannot listen on 127.0.0.1:{port}" in refused.stderr
    assert "Traceback" not in refused.stderr


@pytest.mark.rule("R13")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_a_step_in_flight_does_not_keep_it_and_is_interrupted_at_the_next_start(
    number: signal.Signals, services: Services, tmp_path: Path
) -> None:
    up = services.up(tmp_path / "data")
    run_id = busy(up, 30)
    code, seconds = up.stop(number)
    assert code == 0
    assert seconds < 2
    again = services.up(tmp_path / "data")
    run = again.rest(f"/api/v1/runs/{run_id}")["run"]
    assert run["status"] == "failed"
    assert run["lastError"]["code"] == "RUN_INTERRUPTED"
    assert run["historical"] is True


@pytest.mark.rule("E1", "FR-F17")
def test_who_waits_for_an_answer_while_it_stops_is_told_that_nobody_knows(services: Services, tmp_path: Path) -> None:
    up = services.up(tmp_path / "data")
    entry, instance = up.connection["entries"]["agent_ide"], up.events[-1]["serviceInstanceId"]
    call = {"name": "run", "arguments": begin(instance)}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    accept = {"Accept": "application/json, text/event-stream"}
    identity = ("--operation-id", str(uuid.uuid4()), "--service-instance-id", instance)
    # Who holds the ledger keeps every write waiting.
    with closing(sqlite3.connect(up.folder / "ledger.sqlite3")) as ledger, ThreadPoolExecutor() as clients:
        ledger.execute("BEGIN IMMEDIATE")
        up.process.send_signal(signal.SIGSTOP)
        over_mcp = clients.submit(post, up.url + entry["path"], entry["token"], message, accept)
        over_rest = clients.submit(post, f"{up.url}/api/v1/runs", token_of(up, "studio"), begin(instance))
        typed = clients.submit(up.command, "run_loom", "trial", "--input", "{}", "--no-follow", *identity)
        up.until_asked(3)
        up.process.send_signal(signal.SIGCONT)
        up.until_heard()
        code, seconds = up.stop()
        ledger.rollback()
        answers = [over_mcp.result(), over_rest.result()]
    assert code == 0
    assert seconds < 2
    assert [status for status, _ in answers] == [500, 500]
    for error in (answers[0][1]["error"]["data"], answers[1][1]):
        assert error["code"] == "INTERNAL"
        assert error["retryable"] is False
        assert "whether this was applied is not known" in error["message"]
        assert "get_operation" in error["message"]
    refused = typed.result()
    assert refused.returncode == 1
    assert "ask before you send it again" in refused.stderr
    assert f"--service-instance-id {instance} --data {up.folder}" in refused.stderr
    assert "Traceback" not in up.process.communicate()[1]


@pytest.mark.rule("R6")
def test_a_step_that_ends_within_the_grace_lands(services: Services, tmp_path: Path) -> None:
    up = services.up(tmp_path / "data")
    run_id = busy(up, 0.4)
    up.stop()
    again = services.up(tmp_path / "data")
    attempts = again.rest(f"/api/v1/runs/{run_id}/attempts")["attempts"]
    assert [attempt["status"] for attempt in attempts if attempt["kind"] == "step"] == ["completed"]


def test_an_idle_service_sleeps(services: Services, tmp_path: Path) -> None:
    up = services.up(tmp_path / "data")
    time.sleep(2)

    def used() -> float:
        fields = Path(f"/proc/{up.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    before = used()
    time.sleep(5)
    # A poll of a millisecond would cost many times this; a goal of speed is measured elsewhere.
    assert used() - before < 0.25
