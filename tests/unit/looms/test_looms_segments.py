"""Segments: what Code does comes back as a value, its outcome or wait with its State and what it staged."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest

from apps.looms.segments import (
    AnswerInput,
    AppendRecord,
    Ask,
    Confirm,
    CreateArtifact,
    Outcome,
    SegmentKind,
    Sleep,
    run_segment,
)
from tests.unit.looms.loom_folders import BEFORE, CONTINUE, failure, load, run_code, segment, small_loom, write_loom


@pytest.mark.rule("R6")
@pytest.mark.parametrize("prefix", ["def", "async def"])
def test_an_outcome_comes_with_state_and_what_was_staged(prefix: str, tmp_path: Path) -> None:
    output = run_code(
        tmp_path,
        f"""
        {prefix} run(step):
            step.state = State(text="after", when=step.now())
            step.update(items=[1, 2.5, None, {{"a": "ü"}}])
            step.put_artifact({{"a": 1}})
            step.append_record("note")
            step.log.info("%d done", 2)
            return "done"
        """,
    )
    assert output.ending == Outcome("done")
    assert output.state == {"text": "after", "items": [1, 2.5, None, {"a": "ü"}], "when": "2026-01-01T00:00:00Z"}
    assert output.state_changed
    assert output.staged == (CreateArtifact("id-1", {"a": 1}), AppendRecord("id-2", "note"))
    assert [(line.level, line.message) for line in output.log] == [("info", "2 done")]
    assert not output.abandoned


def test_state_that_was_not_touched_is_not_changed(tmp_path: Path) -> None:
    output = run_code(tmp_path, 'def run(step):\n    return "done"')
    assert (output.state, output.state_changed) == (BEFORE, False)


def test_what_code_changes_inside_its_state_is_kept_and_checked(tmp_path: Path) -> None:
    kept = run_code(tmp_path, 'def run(step):\n    step.state.items.append(1)\n    return "done"')
    assert kept.state["items"] == [1]
    assert kept.state_changed
    refused = run_code(tmp_path, 'def run(step):\n    step.state.text = 5\n    return "done"')
    assert failure(refused).code == "STATE_INVALID"
    assert "/text" in failure(refused).message


@pytest.mark.rule("H1")
def test_questions_are_asked_in_their_wire_form(tmp_path: Path) -> None:
    output = run_code(
        tmp_path,
        """
        def run(step):
            step.update(text="kept")
            options = [Option("x", "X"), Option("y", "Y", "why")]
            return step.ask(
                [Question("a", "A?"), Question("b", "B?", True, "more", options)], then=go_on, only_person=True
            )
        """
        + CONTINUE.replace("\n", "\n        "),
    )
    assert output.ending == Ask(
        [
            {"id": "a", "question": "A?", "isSkippable": False},
            {
                "id": "b",
                "question": "B?",
                "description": "more",
                "options": [{"id": "x", "label": "X"}, {"id": "y", "label": "Y", "description": "why"}],
                "isSkippable": True,
            },
        ],
        "steps:go_on",
        True,
    )
    assert output.state["text"] == "kept"


def test_confirmations_and_sleeps_are_waits(tmp_path: Path) -> None:
    loom = small_loom(tmp_path, "def run(step):\n    return step.confirm('# Ok?', then=go_on)" + CONTINUE)
    assert run_segment(segment(loom)).ending == Confirm("# Ok?", "steps:go_on", False)
    code = "def run(step):\n    return step.sleep_until(step.now() + dt.timedelta(hours=1), then=go_on)" + CONTINUE
    until = dt.datetime(2026, 1, 1, 1, tzinfo=dt.UTC)
    assert run_segment(segment(small_loom(tmp_path, code))).ending == Sleep(until, "steps:go_on")


@pytest.mark.rule("H7")
def test_continuations_get_the_answer_and_run_as_part_of_the_step(tmp_path: Path) -> None:
    loom = small_loom(
        tmp_path,
        """
        def run(step): ...
        def asked(step, answers):
            step.update(items=[[a.question_id, a.is_skipped, a.answer] for a in answers])
            return "done"
        def confirmed(step, answer):
            step.update(items=[answer.is_confirmed, answer.feedback])
            return "done"
        def slept(step):
            return "done"
        """,
    )
    answers = [
        {"questionId": "a", "isSkipped": False, "answer": "x"},
        {"questionId": "b", "isSkipped": True},
    ]
    for name, answer, items in (
        ("asked", AnswerInput("questions", answers), [["a", False, "x"], ["b", True, None]]),
        ("confirmed", AnswerInput("confirmation", {"isConfirmed": False, "feedback": "no"}), [False, "no"]),
        ("confirmed", AnswerInput("confirmation", {"isConfirmed": True}), [True, None]),
        ("slept", AnswerInput("sleep"), []),
    ):
        again = segment(loom, kind=SegmentKind.CONTINUATION, continuation=f"steps:{name}", answer=answer)
        output = run_segment(again)
        assert output.ending == Outcome("done")
        assert output.state["items"] == items
    lost = segment(loom, kind=SegmentKind.CONTINUATION, continuation="steps:gone", answer=AnswerInput("sleep"))
    assert "no function steps:gone" in failure(run_segment(lost)).message


def test_initializers_make_the_state(tmp_path: Path) -> None:
    loom = load(write_loom(tmp_path / "notes"))
    start = segment(loom, kind=SegmentKind.INITIALIZE, stage="draft", step="collect", input={"topic": "t"}, state=None)
    assert run_segment(start).state == {"text": "t", "feedback": []}
    none = segment(loom, kind=SegmentKind.INITIALIZE, stage="publish", step="file", input={"topic": "t"}, state=None)
    assert run_segment(none).state is None


def test_the_step_before_hands_its_outcome_or_its_agents_output(tmp_path: Path) -> None:
    loom = load(write_loom(tmp_path / "notes"))
    state = {"text": "t", "feedback": []}
    common: dict[str, Any] = {"stage": "draft", "step": "review", "input": {"topic": "t"}, "state": state}
    after_agent = segment(loom, previous={"outcome": "written", "words": 7}, previous_step=("draft", "write"), **common)
    assert run_segment(after_agent).state["feedback"] == ["by 7 words"]
    code = 'def run(step):\n    step.update(items=[step.previous])\n    return "done"'
    after_code = run_code(tmp_path, code, previous="go", previous_step=("main", "run"))
    assert after_code.state["items"] == ["go"]


def test_time_and_chance_are_the_same_for_all_attempts_of_a_visit(tmp_path: Path) -> None:
    code = 'def run(step):\n    step.update(items=[step.random.random(), step.now().isoformat()])\n    return "done"'
    loom = small_loom(tmp_path, code)
    first, second, other = (
        run_segment(segment(loom, attempt=1)),
        run_segment(segment(loom, attempt=2)),
        run_segment(segment(loom, seed="other")),
    )
    assert first.state == second.state != other.state


def test_aliases_and_computed_fields_do_not_disturb_a_state(tmp_path: Path) -> None:
    code = """
    from pydantic import ConfigDict, Field, computed_field
    class State(BaseModel):
        model_config = ConfigDict(extra="forbid", strict=True, frozen=True)
        full_name: str = Field("x", alias="fullName")
        when: dt.datetime | None = None
        pairs: dict[str, tuple[int, int]] = {}
        @computed_field
        def length(self) -> int:
            return len(self.full_name)
    def run(step):
        step.update(full_name="new", when=step.now(), pairs={"a": (1, 2)})
        assert step.state.length == 3
        return "done"
    """
    output = run_code(tmp_path, code, state={"full_name": "x"})
    assert output.state == {"full_name": "new", "when": "2026-01-01T00:00:00Z", "pairs": {"a": [1, 2]}}


def test_printing_goes_where_it_always_goes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_code(tmp_path, "def run(step):\n    print('hello')\n    return 'done'").ending == Outcome("done")
    assert capsys.readouterr().out == "hello\n"


def test_two_releases_of_a_loom_run_side_by_side(tmp_path: Path) -> None:
    first = small_loom(tmp_path, "WORD = 'one'\ndef run(step):\n    step.update(text=WORD)\n    return 'done'")
    second = small_loom(tmp_path, "WORD = 'two'\ndef run(step):\n    step.update(text=WORD)\n    return 'done'")
    assert first.package != second.package
    assert first.digest in first.package
    assert [run_segment(segment(loom)).state["text"] for loom in (first, second, first)] == ["one", "two", "one"]
