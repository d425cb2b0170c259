"""Segments past their timeout, and the threads and loops that Code runs on."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from apps.looms.segments import (
    Outcome,
    run_segment,
)
from tests.unit.looms.loom_folders import failure, run_code, segment, small_loom


@pytest.mark.rule("R12")
def test_a_synchronous_step_past_its_timeout_is_left_behind_and_cut_off(tmp_path: Path) -> None:
    code = """
    def run(step):
        step.append_record(1)
        step.log.info("before")
        while not step.cancelled():
            time.sleep(0.01)
        step.log.info("after")
        try:
            step.append_record(2)
        except RuntimeError as error:
            step.input["refused"] = str(error)
        return "done"
    """
    shared: dict[str, Any] = {}
    ended: list[bool] = []
    loom = small_loom(tmp_path, code, extra="timeout: 100ms")
    output = run_segment(segment(loom, input=shared, thread_done=lambda: ended.append(True)))
    found = failure(output)
    assert found.code == "STEP_TIMEOUT"
    assert "TimeoutError" in found.error_names
    assert output.abandoned
    assert [line.message for line in output.log] == ["before"]
    deadline = time.monotonic() + 5
    while not ended and time.monotonic() < deadline:
        time.sleep(0.01)
    assert ended
    assert "past its timeout" in shared["refused"]
    assert [line.message for line in output.log] == ["before"]


@pytest.mark.rule("R12")
def test_an_asynchronous_step_is_cancelled_cleanly_at_its_timeout(tmp_path: Path) -> None:
    code = """
    async def run(step):
        try:
            await asyncio.sleep(30)
        finally:
            step.input["cleaned"] = True
    """
    shared: dict[str, Any] = {}
    output = run_segment(segment(small_loom(tmp_path, code, extra="timeout: 100ms"), input=shared))
    assert failure(output).code == "STEP_TIMEOUT"
    assert shared == {"cleaned": True}
    assert not output.abandoned


def test_a_coroutine_that_will_not_be_cancelled_is_left_behind(tmp_path: Path) -> None:
    code = """
    async def run(step):
        while not step.cancelled():
            try:
                await asyncio.sleep(0.02)
            except asyncio.CancelledError:
                pass
        return "done"
    """
    output = run_segment(segment(small_loom(tmp_path, code, extra="timeout: 100ms")))
    assert failure(output).code == "STEP_TIMEOUT"
    assert output.abandoned


@pytest.mark.parametrize("prefix", ["def", "async def"])
def test_a_timeout_error_of_codes_own_is_no_timeout(prefix: str, tmp_path: Path) -> None:
    code = f"{prefix} run(step):\n    raise TimeoutError('theirs')"
    assert failure(run_code(tmp_path, code, extra="timeout: 10s")).code == "STEP_FAILED"


def test_within_its_timeout_a_step_runs_on_a_thread_of_its_own(tmp_path: Path) -> None:
    code = "def run(step):\n    step.update(text=threading.current_thread().name)\n    return 'done'"
    assert run_code(tmp_path, code, extra="timeout: 10s").state["text"] == "loom-step"
    assert run_code(tmp_path, code).state["text"] == "MainThread"


async def _inside_a_loop(tmp_path: Path) -> object:
    return run_code(tmp_path, "async def run(step):\n    await asyncio.sleep(0)\n    return 'done'").ending


def test_asynchronous_steps_run_also_where_a_loop_is_running(tmp_path: Path) -> None:
    import asyncio

    assert asyncio.run(_inside_a_loop(tmp_path)) == Outcome("done")
