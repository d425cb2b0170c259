"""Runs of the Loom ``intent`` that go other ways than its scripts."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from apps.looms.trial import StepTrace
from loomsvc.testing import AgentPlay, LoomRun, ToolUse, run_loom
from tests.unit.looms.intent_loom import FOLDER, schemas, tools, validation, workspace

SPECIFICATION = {
    "title": "A file",
    "summary": "There is a file.",
    "requirements": [{"id": "R1", "text": "a.txt is there.", "acceptance": "It is listed."}],
}
PLAN = {"approach": "Write it.", "files": [{"path": "a.txt", "purpose": "It is wanted."}]}
DRAFTED = AgentPlay({"outcome": "drafted"}, [ToolUse("save_specification", {"specification": SPECIFICATION})])
PLANNED = AgentPlay({"outcome": "planned"}, [ToolUse("save_plan", {"plan": PLAN})])
BUILT = AgentPlay({"outcome": "built", "summary": "Done."}, [ToolUse("write_file", {"path": "a.txt", "text": "a"})])
NOT_SAVED = {"draft": {"outcome": "drafted"}, "plan": {"outcome": "planned"}}


def examined(*, is_met: bool) -> AgentPlay:
    judgements = [{"requirement": "R1", "is_met": is_met, "reason": "I looked."}]
    return AgentPlay(
        {"outcome": "examined", "summary": "Looked at."}, [ToolUse("save_judgements", {"judgements": judgements})]
    )


def play(
    folder: Path,
    *,
    answers: list[Any],
    settings: dict[str, str] | None = None,
    given: dict[str, Any] | None = None,
    on_step: Callable[[StepTrace], None] | None = None,
    **plays: list[Any],
) -> LoomRun:
    """A Run in which each agent does the usual unless told otherwise."""
    agents = {"draft": [DRAFTED], "plan": [PLANNED], "build": [BUILT] * 3, **plays}
    return run_loom(
        FOLDER,
        {"wish": "A file.", "folder": str(folder), **(given or {})},
        answers=answers,
        agents=agents,
        environ={**os.environ, "LOOM_INTENT_ROOTS": str(folder), **(settings or {})},
        on_step=on_step,
    )


@pytest.mark.parametrize(
    ("stage", "step", "before", "saved"),
    [("specification", "draft", [], DRAFTED), ("solution", "plan", [True], PLANNED)],
)
def test_after_a_no_the_same_thing_is_not_shown_again(
    stage: str, step: str, before: list[Any], saved: AgentPlay, tmp_path: Path
) -> None:
    plays = {step: [saved, NOT_SAVED[step], saved]}
    run = play(tmp_path, answers=[*before, {"isConfirmed": False, "feedback": "Otherwise."}], **plays)
    assert run.status == "waiting"
    assert run.path()[-4:] == [f"{stage}.{one}" for one in ("confirm", step, "confirm", step)]
    assert [note[:9] for note in run.state["notes"]] == ["Otherwise", "Nothing w"]


@pytest.mark.rule("H6")
@pytest.mark.parametrize(("value", "only_person"), [("true", True), ("false", False), (None, False)])
@pytest.mark.parametrize("answers", [[], [True]], ids=["specification", "solution"])
def test_the_operator_says_whether_a_confirmation_must_come_from_the_person(
    value: str | None, only_person: bool, answers: list[Any], tmp_path: Path
) -> None:
    settings = {} if value is None else {"LOOM_INTENT_ONLY_PERSON": value}
    assert play(tmp_path, answers=answers, settings=settings).pending.only_person is only_person


def test_what_a_person_says_at_length_is_cut_and_old_notes_make_room(tmp_path: Path) -> None:
    question = {"id": "a", "question": "What?", "why": "Because."}
    asks = AgentPlay({"outcome": "asks", "questions": [question]})
    answers = [{"a": "x" * 5000}, *({"isConfirmed": False, "feedback": f"{n}" + "y" * 5000} for n in range(12))]
    run = play(tmp_path, answers=answers, draft=[asks, *[DRAFTED] * 13])
    assert run.state["answers"] == [{"question": "What?", "answer": "x" * 2000}]
    assert [(note.rstrip("y"), len(note)) for note in run.state["notes"]] == [(str(n), 4000) for n in range(2, 12)]


def test_a_folder_that_is_too_much_ends_the_run_before_anybody_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "b").write_text("bb")
    monkeypatch.setattr(workspace, "MAX_FOLDER_BYTES", 1)
    run = play(tmp_path, answers=[])
    assert run.path() == []
    assert "choose a smaller one" in run.problem.message


def task(run: LoomRun, round_: int) -> Any:
    """What the developer reads in a round after those of ``run``."""
    call = SimpleNamespace(
        input=schemas.Request.model_validate(run.input),
        state=SimpleNamespace(round=round_),
        artifacts=SimpleNamespace(get=run.results.artifact_at),
    )
    return tools.read_task(call)


def test_the_developer_reads_what_was_wrong_in_a_repair_and_nothing_old_before(tmp_path: Path) -> None:
    run = play(tmp_path, answers=[True, True], given={"repairs": 1}, examine=[examined(is_met=False)] * 2)
    assert run.outcome == "unfinished"
    first, second = task(run, 1), task(run, 2)
    assert (first.rounds_left, first.report) == (1, None)
    assert (second.rounds_left, second.report.verdict) == (0, "unfinished")
    assert second.specification.title == "A file"
    assert [file.path for file in second.plan.files] == ["a.txt"]


@pytest.mark.parametrize(("ended", "verdict"), [("passed", "validated"), ("failed", "repair")])
def test_a_good_judgement_does_not_outweigh_a_failed_check(ended: str, verdict: str, tmp_path: Path) -> None:
    run = play(tmp_path, answers=[True, True], examine=[examined(is_met=True)])
    result = {"command": ["x"], "purpose": "p", "exit_code": 0, "seconds": 0, "output": "", "left_out": 0}
    state = validation.Validating.model_validate(
        {"results": [{**result, "ended": ended}], "judgements": run.state["judgements"]}
    )
    results = SimpleNamespace(get=run.results.artifact_at)
    step = SimpleNamespace(state=state, artifacts=results, input=SimpleNamespace(repairs=1))
    assert validation._verdict(step) == verdict


@pytest.mark.parametrize("repairs", [0, 2])
def test_the_examiner_sends_back_within_the_same_budget(repairs: int, tmp_path: Path) -> None:
    run = play(tmp_path, answers=[True, True], given={"repairs": repairs}, examine=[examined(is_met=False)] * 9)
    assert run.outcome == "unfinished"
    assert run.path().count("implementation.build") == repairs + 1
    assert [one["round"] for one in run.records("validation")] == list(range(1, repairs + 2))
    assert [one["verdict"] for one in run.records("validation")] == ["repair"] * repairs + ["unfinished"]


def test_a_check_has_the_time_that_the_input_gives_it(tmp_path: Path) -> None:
    command = ["python", "-c", "import time; time.sleep(600)"]
    given = {"checks": [command], "check_seconds": 1, "repairs": 0}
    run = play(tmp_path, answers=[True, True], given=given, settings={"LOOM_INTENT_COMMANDS": "python"})
    assert run.outcome == "unfinished"
    (check,) = run.artifact("validation")["checks"]
    assert check["ended"] == "timed_out"


def test_a_check_that_both_want_runs_once(tmp_path: Path) -> None:
    command = ["python", "-c", "pass"]
    plan = {**PLAN, "checks": [{"command": command, "purpose": "The same."}]}
    planned = AgentPlay({"outcome": "planned"}, [ToolUse("save_plan", {"plan": plan})])
    run = play(
        tmp_path,
        answers=[True, True],
        given={"checks": [command]},
        settings={"LOOM_INTENT_COMMANDS": "python"},
        plan=[planned],
        examine=[examined(is_met=True)],
    )
    assert run.outcome == "validated"
    assert [check["command"] for check in run.artifact("validation")["checks"]] == [command]


def test_a_file_that_was_written_before_a_crash_is_in_the_manifest_all_the_same(tmp_path: Path) -> None:
    """The developer's write landed, its receipt did not, and the developer says nothing of it."""

    def lands(trace: StepTrace) -> None:
        if trace.step == "prepare":
            (tmp_path / "a.txt").write_text("as the Tool wrote it")

    silent = AgentPlay({"outcome": "built", "summary": "Nothing was done."})
    run = play(tmp_path, answers=[True, True], on_step=lands, build=[silent], examine=[examined(is_met=True)])
    assert run.artifact("implementation")["written"] == ["a.txt"]
