"""``make demo``: what a newcomer sees first."""

# ruff: noqa: F811 - the fixture comes from local_service
from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from local_service import ROOT, Services, at_terminal, environment, interruptible, loomsvc, services  # noqa: F401


def kept_folder(shown: str) -> Path:
    found = re.search(r"up --data (\S+)", shown)
    assert found, shown
    return Path(found[1])


@pytest.fixture
def answers(tmp_path: Path) -> Callable[..., str]:
    """Writes a file of answers."""

    def write(*given: object) -> str:
        path = tmp_path / "answers.json"
        path.write_text(json.dumps(given))
        return str(path)

    return write


ASKED = [
    {"questionId": "reader", "isSkipped": False, "answer": "My grandmother"},
    {"questionId": "rules", "isSkipped": True},
]


@pytest.mark.rule("A8", "H3", "S1")
def test_the_demo_completes_and_leaves_a_ledger_that_goes_on(answers: Callable[..., str], services: Services) -> None:
    # The person sends the plan back once, so the architect hands it in again.
    file = answers(ASKED, {"isConfirmed": True}, {"isConfirmed": False, "feedback": "Shorter."}, {"isConfirmed": True})
    done = loomsvc("demo", "--answers", file, timeout=100)
    assert done.returncode == 0, done.stdout + done.stderr
    folder = kept_folder(done.stdout)
    try:
        for part in (
            "✓ completed",
            "analyst claims specification/draft",
            "reads specifying/template.md",
            "✓ write_file wordcount.py",
            "the person said: My grandmother",
            "Answered from the file: no. Shorter.",
            "hands in the same again",
            "implementation/build (visit 2)",
            "validated in round 2",
            "█",
            "/admin/",
            "docs/tutorial/first-loom.md",
        ):
            assert part in done.stdout, part
        program = folder / "demo" / "wordcount"
        counted = subprocess.run(
            [sys.executable, "wordcount.py", "README.md"], cwd=program, capture_output=True, text=True, check=True
        )
        assert counted.stdout == "1 4 23 README.md\n"
        up = services.up(folder)
        # The operator was made and shown by the demo; a further start shows no password again.
        assert [event["event"] for event in up.events] == ["ready"]
        token = up.connection["entries"]["agent_ide"]["token"]
        assert token not in done.stdout + done.stderr
        assert "loom_owner_" not in done.stdout + done.stderr + (folder / "up.log").read_text()
        (run,) = up.rest("/api/v1/runs")["runs"]
        assert (run["status"], run["outcome"]) == ("completed", "validated")
        assert run["execution"] == {"source": "agent_ide", "agentExecutor": "mcp_client"}
        stages = [one["stageName"] for one in up.rest("/api/v1/artifacts?loomName=intent")["artifacts"]["data"]]
        assert sorted(stages) == ["implementation", "solution", "specification", "validation"]
    finally:
        shutil.rmtree(folder)


@pytest.mark.rule("H5")
def test_the_demo_fails_and_says_what_is_asked_when_its_answers_run_out(answers: Callable[..., str]) -> None:
    done = loomsvc("demo", "--answers", answers(ASKED), timeout=100)
    shutil.rmtree(kept_folder(done.stdout))
    assert done.returncode == 1
    assert "No answer is left" in done.stdout
    assert "? waiting" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr


@pytest.mark.rule("H3")
def test_the_demo_says_what_is_wrong_with_an_answer(answers: Callable[..., str]) -> None:
    done = loomsvc("demo", "--answers", answers([{"questionId": "reader", "isSkipped": True}]), timeout=100)
    assert done.returncode == 1
    assert "INVALID_REQUEST" in done.stderr
    assert "/answer" in done.stderr
    assert "Traceback" not in done.stdout + done.stderr


def test_without_a_terminal_the_demo_takes_the_scripts_answers_and_says_so() -> None:
    done = loomsvc("demo", timeout=100)
    shutil.rmtree(kept_folder(done.stdout))
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("Answered from the demo's script, for there is no terminal to ask at") == 3


@pytest.mark.rule("H1", "H2")
def test_a_person_at_a_terminal_is_asked_what_the_demo_asks(tmp_path: Path) -> None:
    shown = at_terminal(
        tmp_path / "data",
        ["demo"],
        [
            ("[number or own words]", "2"),
            ("empty to skip]", ""),
            ("Confirm? [y/n]", "y"),
            ("(empty for none)", ""),
            ("Confirm? [y/n]", "y"),
            ("(empty for none)", ""),
        ],
    )
    assert "the person said: Another program" in shown
    assert "validated in round 2" in shown


def test_the_demo_refuses_a_file_that_is_no_list_of_answers(answers: Callable[..., str], tmp_path: Path) -> None:
    refused = loomsvc("demo", "--answers", str(tmp_path / "none.json"), "--data", str(tmp_path / "data"))
    assert refused.returncode == 2
    assert "cannot be read" in refused.stderr


def test_ctrl_c_ends_the_demo_and_its_service(tmp_path: Path) -> None:
    demo = subprocess.Popen(
        [sys.executable, "manage.py", "demo", "--data", str(tmp_path / "data")],
        cwd=ROOT, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        preexec_fn=interruptible,
    )  # fmt: skip
    assert demo.stdout is not None
    next(line for line in demo.stdout if line.startswith("Ready at"))
    os.killpg(demo.pid, signal.SIGINT)
    _, err = demo.communicate(timeout=30)
    assert demo.returncode in (130, 0)  # 0: it had finished already
    assert "Traceback" not in err
    deadline = time.monotonic() + 5
    while group_lives(demo.pid):
        assert time.monotonic() < deadline
        time.sleep(0.1)


def group_lives(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
