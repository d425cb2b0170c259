"""The commands that are clients of the running service."""

# ruff: noqa: F811 - the fixtures come from local_service
from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import uuid
from pathlib import Path

import pytest
from local_service import (  # noqa: F401
    ROOT,
    Dialogue,
    Services,
    Up,
    at_terminal,
    environment,
    interruptible,
    loomsvc,
    service,
    services,
)

#: Prompts, and what to type at each: a text, or what is done first and then says it.
ANSWERS = [[{"questionId": "q", "isSkipped": False, "answer": "yes"}], {"isConfirmed": False, "feedback": "later"}]
#: What is typed when these prompts of ASKS_TWICE have come.
DIALOGUE: Dialogue = [("[answer]", "yes"), ("[y/n]", "y"), ("(empty for none)", "")]
ASKS_TWICE = {"do": [{"ending": "ask"}, {"ending": "again"}, {"ending": "confirm"}, {"ending": "done"}]}


def tokens(up: Up) -> list[str]:
    return [entry["token"] for entry in up.connection["entries"].values()]


def run_loom(up: Up, given: object, *options: str) -> subprocess.CompletedProcess[str]:
    return up.command("run_loom", "trial", "--input", json.dumps(given), *options)


@pytest.mark.rule("N8")
def test_status_and_list_looms_read_the_service(service: Up) -> None:
    status = service.json("status")["service"]
    assert status["instanceId"] == service.events[-1]["serviceInstanceId"]
    assert status["source"] == "cli"
    assert {loom["loomName"] for loom in service.json("list_looms")["looms"]} >= {"trial", "single"}
    shown = service.command("list_looms")
    assert "✓ ready" in shown.stdout
    assert "work → wrap" in shown.stdout


@pytest.mark.rule("R6", "S1", "R3")
def test_a_run_is_followed_to_its_end_and_its_results_are_read(service: Up) -> None:
    done = run_loom(service, {"do": [{"ending": "leave", "record": "r-1"}], "close": {"artifact": {"zip": "020"}}})
    assert done.returncode == 0, done.stderr
    assert "✓ completed" in done.stdout
    assert "█" in done.stdout  # the timeline
    run_id = next(line.split()[1] for line in done.stdout.splitlines() if line.startswith("Run "))
    run = service.json("get_run", run_id)["run"]
    assert run["status"] == "completed"
    assert run["execution"]["source"] == "cli"
    assert run["origin"]["operationId"] in done.stdout
    assert run["origin"]["serviceInstanceId"] in done.stdout
    artifact = service.json("get_artifact", "--loom-name", "trial", "--stage-name", "wrap")["artifact"]
    assert artifact["data"] == {"zip": "020"}
    listed = service.json("list_artifacts", "--loom-name", "trial", "--limit", "1")["artifacts"]["data"]
    assert [item["artifactId"] for item in listed] == [artifact["artifactId"]]
    assert service.json("get_record", "r-1")["record"]["runId"] == run_id
    assert run_id in service.command("list_runs").stdout
    assert "wrap/close" in service.command("get_run", run_id, "--timeline").stdout


@pytest.mark.rule("O7", "O8")
def test_the_printed_identity_finds_the_receipt_and_the_run_again(service: Up) -> None:
    operation_id = str(uuid.uuid4())
    here = ["--service-instance-id", service.json("status")["service"]["instanceId"]]
    started = run_loom(service, {}, "--operation-id", operation_id, *here, "--no-follow", "--json")
    receipt = json.loads(started.stdout)["receipt"]
    assert receipt["operationId"] == operation_id
    found = service.json("get_operation", operation_id, *here)
    assert found == {"status": "found", "receipt": receipt}
    assert service.json("find_run", operation_id, *here)["run"]["runId"] == receipt["runId"]
    again = json.loads(run_loom(service, {}, "--operation-id", operation_id, *here, "--no-follow", "--json").stdout)
    assert again["receipt"] == receipt
    elsewhere = ["--service-instance-id", str(uuid.uuid4())]
    assert service.json("get_operation", operation_id, *elsewhere) == {"status": "instance_changed"}
    half = run_loom(service, {}, "--operation-id", operation_id, "--no-follow")
    assert half.returncode == 2, "at another instance it would be another operation"
    assert "--service-instance-id" in half.stderr
    assert "Traceback" not in half.stderr


@pytest.mark.rule("H1", "H2", "H6")
def test_answers_are_taken_from_a_file_in_order(service: Up, tmp_path: Path) -> None:
    (tmp_path / "answers.json").write_text(json.dumps(ANSWERS))
    done = run_loom(service, ASKS_TWICE, "--answers", str(tmp_path / "answers.json"), "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    run = json.loads(done.stdout)["run"]
    events = service.rest(f"/api/v1/runs/{run['runId']}/events")["events"]
    answered = [event["data"] for event in events if event["type"] == "ActionAnswered"]
    assert [data["answeredBy"]["via"] for data in answered] == ["cli", "cli"]


@pytest.mark.rule("H3")
def test_a_run_whose_answers_are_used_up_keeps_waiting_and_says_how_to_answer(service: Up, tmp_path: Path) -> None:
    (tmp_path / "answers.json").write_text(json.dumps(ANSWERS[:1]))
    left = run_loom(service, ASKS_TWICE, "--answers", str(tmp_path / "answers.json"))
    assert left.returncode == 1
    assert "? waiting" in left.stdout
    command = next(line.split() for line in left.stdout.splitlines() if "loomsvc answer_ask" in line)
    run_id, action_id = command[2:4]
    answered = service.json("answer_ask", run_id, action_id, "--answer", json.dumps(ANSWERS[1]))
    assert answered["receipt"]["status"] == "accepted"
    assert service.until(run_id, "completed")["outcome"] == "done"


@pytest.mark.rule("H3")
def test_a_wrong_answer_in_a_file_leaves_a_run_that_is_named_with_the_way_on(service: Up, tmp_path: Path) -> None:
    (tmp_path / "answers.json").write_text('[{"isConfirmed": "perhaps"}]')
    answers = ("--answers", str(tmp_path / "answers.json"))
    left = run_loom(service, ASKS_TWICE, *answers)
    assert left.returncode == 1
    assert "INVALID_REQUEST" in left.stderr and "/answer" in left.stderr
    command = next(line.split() for line in left.stdout.splitlines() if "loomsvc answer_ask" in line)
    found = run_loom(service, ASKS_TWICE, *answers, "--json")
    assert found.returncode == 1
    told = json.loads(found.stdout)
    assert told["error"]["code"] == "INVALID_REQUEST"
    assert told["run"]["status"] == "waiting"
    assert told["run"]["runId"] == told["receipt"]["runId"]
    for run_id in (command[2], told["run"]["runId"]):
        service.json("cancel_run", run_id)


@pytest.mark.rule("H1", "H2")
def test_a_person_at_a_terminal_is_asked_in_place(service: Up) -> None:
    shown = at_terminal(service.folder, ["run_loom", "trial", "--input", json.dumps(ASKS_TWICE)], DIALOGUE)
    assert "Go on?" in shown
    assert "completed" in shown


@pytest.mark.rule("H1", "H2", "R3")
@pytest.mark.parametrize(
    "arguments", [["get_run", "RUN", "--follow"], ["list_runs", "--loom-name", "trial", "--follow"]]
)
def test_a_run_that_is_under_way_is_followed_and_its_questions_asked(service: Up, arguments: list[str]) -> None:
    run_id = service.start("trial", ASKS_TWICE)
    shown = at_terminal(service.folder, [run_id if word == "RUN" else word for word in arguments], DIALOGUE)
    assert "completed" in shown
    assert "█" in shown
    assert service.run(run_id)["status"] == "completed"


@pytest.mark.rule("H5")
def test_a_wait_that_nobody_answers_here_ends_with_the_command_that_does(service: Up) -> None:
    run_id = service.start("trial", {"do": [{"ending": "ask"}]})
    for arguments in (["get_run", run_id, "--follow"], ["list_runs", "--follow", run_id]):
        left = service.command(*arguments)
        assert left.returncode == 1
        assert left.stdout.splitlines()[-1].strip().startswith(f"loomsvc interact {run_id}")
        as_json = service.command(*arguments, "--json")
        assert json.loads(as_json.stdout)["run"]["pendingAction"]["kind"] == "questions"
        assert f"loomsvc interact {run_id}" in as_json.stderr
    shown = service.command("interact", run_id)
    assert shown.returncode == 1
    assert f"loomsvc answer_ask {run_id} {handed_over(service, run_id)}" in shown.stdout
    service.json("cancel_run", run_id)
    over = service.command("interact", run_id)
    assert "asks nothing; it is cancelled" in over.stderr


def handed_over(service: Up, run_id: str) -> str:
    """The Action's id, as `interact --json` hands it over."""
    done = service.command("interact", run_id, "--json")
    handed = json.loads(done.stdout)
    assert handed["presented"] == "unsupported"
    return str(handed["action"]["id"])


@pytest.mark.rule("H3", "H6")
def test_interact_asks_at_a_terminal_and_says_when_somebody_was_faster(service: Up) -> None:
    run_id = service.start(
        "trial", {"do": [{"ending": "ask", "only_person": True}, {"ending": "again"}, {"ending": "ask"}]}
    )
    first = service.until(run_id, "waiting")["pendingAction"]["id"]
    shown = at_terminal(service.folder, ["interact", run_id], [("[answer]", "yes")])
    assert "accepted" in shown
    service.until(run_id, "waiting")
    stale = service.command("interact", run_id, first)
    assert "✗ CONFLICT" in stale.stderr

    def overtake() -> str:
        action = service.run(run_id)["pendingAction"]["id"]
        identity = {"operationId": str(uuid.uuid4()), "serviceInstanceId": service.events[-1]["serviceInstanceId"]}
        service.rest(f"/api/v1/runs/{run_id}/actions/{action}/answer", {"answer": ANSWERS[0], **identity})
        return "too late"

    late = at_terminal(service.folder, ["interact", run_id], [("[answer]", overtake)], code=1)
    assert "somebody was faster" in late
    assert "(studio, by rest)" in late


@pytest.mark.rule("R9", "R10", "R11")
def test_a_run_is_paused_resumed_and_cancelled(service: Up) -> None:
    run_id = service.start("trial", {"do": [{"ending": "ask"}, {"ending": "again"}, {"ending": "ask"}]})
    waiting = service.until(run_id, "waiting")
    assert service.json("pause_run", run_id)["run"]["pauseRequested"] is True
    service.json("answer_ask", run_id, waiting["pendingAction"]["id"], "--answer", json.dumps(ANSWERS[0]))
    paused = service.until(run_id, "paused")
    hint = f"resume_run {run_id} --expected-revision {paused['revision']}"
    assert hint in service.command("get_run", run_id).stdout
    stale = service.command("resume_run", run_id, "--expected-revision", "1")
    assert stale.returncode == 1
    assert "✗ CONFLICT" in stale.stderr
    service.json("resume_run", run_id, "--expected-revision", str(paused["revision"]))
    service.until(run_id, "waiting")
    assert service.json("cancel_run", run_id)["run"]["status"] == "cancelled"


def test_a_run_that_fails_ends_with_1_and_its_reason(service: Up) -> None:
    failed = run_loom(service, {"do": [{"failures": 9, "error": "ValueError"}]})
    assert failed.returncode == 1
    assert "✗ failed" in failed.stdout
    assert "ValueError: attempt 1 of act" in failed.stdout
    hint = failed.stdout.splitlines()[-1].split()
    assert hint[:2] == ["loomsvc", "loom_graph"]
    drawn = service.command(*hint[1:3])
    assert drawn.returncode == 0, drawn.stderr
    assert "code act (steps:act) (entry)  ✗ failed, 1 visit" in drawn.stdout


@pytest.mark.rule("E3")
def test_every_issue_is_shown_with_its_pointer_and_the_next_step(service: Up) -> None:
    refused = run_loom(service, {"do": [{"seconds": "x"}], "effects": 7})
    assert refused.returncode == 1
    assert refused.stdout == ""
    for part in ("✗ INVALID_REQUEST", "/input/do/0/seconds", "/input/effects", "Next: "):
        assert part in refused.stderr
    as_json = run_loom(service, {"do": 1}, "--json")
    assert as_json.returncode == 1
    assert json.loads(as_json.stdout)["error"]["code"] == "INVALID_REQUEST"


@pytest.mark.rule("FR-D15")
@pytest.mark.parametrize("text", ["020", "1e3", "null"])
def test_text_stays_text(service: Up, text: str) -> None:
    refused = service.command("run_loom", text, "--input", "{}", "--json")
    error = json.loads(refused.stdout)["error"]
    assert error["code"] == "NOT_FOUND"
    assert f"no Loom {text}." in error["message"]


@pytest.mark.rule("FR-D15")
def test_json_given_as_text_is_kept_and_what_is_no_json_is_refused_with_a_hint(service: Up) -> None:
    kept = run_loom(service, "020", "--json", "--no-follow")
    assert json.loads(kept.stdout)["error"]["validation"]["issues"]
    given = service.command("run_loom", "single", "--input", '"020"', "--no-follow", "--json")
    assert json.loads(given.stdout)["run"]["input"] == "020"
    refused = service.command("run_loom", "single", "--input", "020")
    assert refused.returncode == 2
    assert "this is not JSON" in refused.stderr
    huge = service.command("run_loom", "single", "--input", "9007199254740993")
    assert huge.returncode == 2
    assert "strings" in huge.stderr


def test_input_comes_from_a_file(service: Up, tmp_path: Path) -> None:
    (tmp_path / "input.json").write_text('{"do": [{"ending": "done"}]}')
    assert service.command("run_loom", "trial", "--input", f"@{tmp_path / 'input.json'}").returncode == 0
    missing = service.command("run_loom", "trial", "--input", f"@{tmp_path / 'none.json'}")
    assert missing.returncode == 2
    assert "cannot be read" in missing.stderr


def test_no_service_is_said_in_one_line_with_the_cure(tmp_path: Path, services: Services) -> None:
    never = loomsvc("status", "--data", str(tmp_path / "mine"))
    assert never.returncode == 3
    assert never.stderr == (
        f"No loomsvc runs on {tmp_path / 'mine'}. Start it with `loomsvc up`, or name its data folder with --data.\n"
    )
    up = services.up(tmp_path / "gone")
    up.stop()
    assert up.command("list_runs").returncode == 3
    # A stranger has the port and the number of a process that lives: still no answer, still no traceback.
    stale = {**up.connection, "pid": os.getpid()}
    (up.folder / "connection.json").write_text(json.dumps(stale))
    assert up.command("list_runs").returncode == 3


@pytest.mark.rule("E6", "FR-F1")
def test_a_service_that_dies_amid_a_call_leaves_an_identity_to_ask_with(services: Services, tmp_path: Path) -> None:
    up = services.up(tmp_path / "data")
    os.kill(up.process.pid, signal.SIGSTOP)
    asking = subprocess.Popen(
        [sys.executable, "manage.py", "run_loom", "trial", "--input", "{}", "--data", str(up.folder),
         "--service-instance-id", up.events[-1]["serviceInstanceId"]],
        cwd=ROOT, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    up.until_asked()
    up.process.kill()
    _, err = asking.communicate(timeout=20)
    assert asking.returncode == 1
    assert "loomsvc get_operation" in err
    assert up.events[-1]["serviceInstanceId"] in err
    assert "Traceback" not in err


def test_a_credential_that_is_no_longer_taken_is_said_plainly(services: Services, tmp_path: Path) -> None:
    up = services.up(tmp_path / "data")
    listed = json.loads(up.command("token_list", "--json").stdout)
    up.command("token_revoke", next(row["publicId"] for row in listed if row["source"] == "cli"))
    refused = up.command("status")
    assert refused.returncode == 1
    assert "UNAUTHENTICATED" in refused.stderr
    assert "loomsvc up" in refused.stderr


@pytest.mark.rule("E6", "N2")
def test_no_command_ever_shows_a_credential(service: Up) -> None:
    shown = "".join(
        done.stdout + done.stderr
        for done in (
            service.command("status"),
            service.command("list_runs", "--json", "--traceback"),
            service.command("get_run", str(uuid.uuid4()), "--traceback"),
            run_loom(service, {"do": [{"failures": 9, "error": "ValueError"}]}),
        )
    )
    assert not [token for token in tokens(service) if token in shown or token[-12:] in shown]


@pytest.mark.rule("K25")
def test_control_characters_of_a_loom_never_reach_the_terminal(service: Up) -> None:
    run_loom(service, {"do": [{"ending": "done", "artifact": {"x": "\x1b[2J\x9b5m\u202eevil"}}]})
    shown = service.command("get_artifact", "--loom-name", "trial", "--stage-name", "work").stdout
    assert not [character for character in ("\x1b", "\x9b", "\u202e") if character in shown]
    assert "evil" in shown
    refused = service.command("run_loom", "\x1b[31mred", "--input", "{}")
    assert "\x1b" not in refused.stderr


def test_ctrl_c_stops_following_and_says_that_the_run_goes_on(service: Up) -> None:
    following = subprocess.Popen(
        [sys.executable, "manage.py", "run_loom", "trial", "--input", '{"do": [{"seconds": 60}]}',
         "--data", str(service.folder)],
        cwd=ROOT, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=interruptible,
    )  # fmt: skip
    assert following.stdout is not None
    lines = iter(following.stdout)
    line = next(line for line in lines if line.startswith(("Run ", "▶")))
    run_id = line.split()[1]
    next(line for line in lines if "running" in line)
    following.send_signal(signal.SIGINT)
    rest, err = following.communicate(timeout=20)
    assert following.returncode == 130
    assert "The Run goes on" in rest
    for verb in ("get_run", "pause_run", "cancel_run"):
        assert f"loomsvc {verb} {run_id}" in rest
    assert "Traceback" not in err
    assert service.run(run_id)["status"] == "running"
    service.json("cancel_run", run_id)
