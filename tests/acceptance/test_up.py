"""``loomsvc up`` as its user meets it."""

# ruff: noqa: F811 - the fixture comes from local_service
from __future__ import annotations

import os
import signal
import socket
import stat
import time
from pathlib import Path

import pytest
from local_service import Services, Up, loomsvc, services  # noqa: F401


def busy(up: Up, seconds: float) -> str:
    """A Run whose Step is under way for ``seconds``."""
    run_id = up.start("trial", {"do": [{"seconds": seconds}]})
    up.until(run_id, "running")
    return run_id


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
