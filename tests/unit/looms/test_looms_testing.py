"""The tester: a whole Run in memory, with people and agents played by the test."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import pytest

from apps.looms.scripts import play_script, read_script
from apps.looms.sources import EXAMPLES
from loomsvc.testing import AgentPlay, LoomInvalid, ScriptMismatch, ToolUse, run_loom
from tests.unit.looms.loom_folders import YAML, small_loom, write_loom

PLAYS = [
    AgentPlay({"outcome": "written", "words": 3}, [ToolUse("save-draft", {"text": "one two three"}, {"ok": True})]),
    AgentPlay({"outcome": "written", "words": 1}, [ToolUse("save-draft", {"text": ""}, error="empty")]),
]
SCRIPT = """\
description: A draft is sent back once.
input: {topic: hello}
agents:
  write:
    - calls:
        - {tool: save-draft, input: {text: one two three}, output: {ok: true}}
      output: {outcome: written, words: 3}
    - calls:
        - {tool: save-draft, input: {text: ""}, error: empty}
      output: {outcome: written, words: 1}
answers:
  - {isConfirmed: false, feedback: longer}
  - true
expect:
  outcome: done
  steps: [draft.collect, draft.write, draft.review, draft.write, draft.review, publish.file]
  artifacts:
    - {stage: draft, data: {text: one two three, feedback: [by 3 words, longer, by 1 words]}}
  records:
    - {stage: publish, data: {text: one two three}}
"""


def test_a_whole_run_with_agents_people_and_a_loop(tmp_path: Path) -> None:
    folder = write_loom(tmp_path / "notes")
    answers = [{"isConfirmed": False, "feedback": "longer"}, True]
    run = run_loom(folder, {"topic": "hello"}, agents={"write": PLAYS}, answers=answers)
    assert (run.status, run.outcome) == ("completed", "done")
    assert run.path() == [
        "draft.collect", "draft.write", "draft.review", "draft.write", "draft.review", "publish.file",
    ]  # fmt: skip
    assert run.artifact("draft") == {"text": "one two three", "feedback": ["by 3 words", "longer", "by 1 words"]}
    assert run.records("publish") == [{"text": "one two three"}]


def test_it_stops_at_what_nothing_is_given_for(tmp_path: Path) -> None:
    folder = write_loom(tmp_path / "notes")
    assert run_loom(folder, {"topic": "x"}).pending.agent_id == "writer"
    run = run_loom(folder, {"topic": "x"}, agents={"draft.write": PLAYS})
    assert run.status == "waiting"
    assert run.pending.context == "one two three"
    stopped = run_loom(folder, {"topic": "x"}, until="collect")
    assert (stopped.status, stopped.path()) == ("stopped", ["draft.collect"])


@pytest.mark.parametrize("answers", [[5], [{"isConfirmed": "yes"}], [{}]])
def test_an_answer_that_does_not_fit_is_told(answers: list[Any], tmp_path: Path) -> None:
    with pytest.raises(ScriptMismatch, match="does not fit the confirmation"):
        run_loom(write_loom(tmp_path / "notes"), {"topic": "x"}, agents={"write": PLAYS}, answers=answers)


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (ToolUse("nothing", {}), "declares no Tool nothing"),
        (ToolUse("save-draft", {}), "/text"),
        (ToolUse("save-draft", {"text": "x"}, {"ok": False}), "the test expects"),
        (ToolUse("save-draft", {"text": "x"}, error="empty"), "completed"),
        (ToolUse("save-draft", {"text": ""}), "The text is empty"),
        (ToolUse("save-draft", {"text": ""}, error="full"), "the test expects 'full'"),
    ],
)
def test_a_tool_call_that_goes_otherwise_is_told(use: ToolUse, message: str, tmp_path: Path) -> None:
    plays = [AgentPlay({"outcome": "written"}, [use])]
    with pytest.raises(ScriptMismatch, match=message):
        run_loom(write_loom(tmp_path / "notes"), {"topic": "x"}, agents={"write": plays})


@pytest.mark.parametrize("output", [{}, {"outcome": "other"}, {"outcome": "written", "words": "3"}, "written"])
def test_an_agents_output_is_checked(output: Any, tmp_path: Path) -> None:
    run = run_loom(write_loom(tmp_path / "notes"), {"topic": "x"}, agents={"write": [AgentPlay(output)]})
    assert run.problem.code == "AGENT_OUTPUT_INVALID"


def test_a_folder_that_does_not_load_and_an_input_that_does_not_fit_are_told(tmp_path: Path) -> None:
    with pytest.raises(LoomInvalid, match=r"loom\.yaml:5: "):
        run_loom(write_loom(tmp_path / "bad", loom_yaml=("settings: schemas:Settings", "settings: schemas:Set")), {})
    with pytest.raises(ValueError, match="/topic"):
        run_loom(write_loom(tmp_path / "notes"), {})


FLAKY = """
def run(step):
    if step.attempt < 3:
        raise ConnectionResetError("again")
    step.update(items=[step.attempt, step.idempotency_key, step.now().isoformat()])
    return "done"
"""


@pytest.mark.rule("R12")
def test_retries_move_the_clock_and_keep_the_idempotency_key(tmp_path: Path) -> None:
    retry = "retry: {attempts: 3, backoff: 10s, errors: [ConnectionError]}"
    run = run_loom(small_loom(tmp_path, FLAKY, extra=retry))
    assert [(one.attempt, one.ended) for one in run.steps] == [(1, "failed"), (2, "failed"), (3, "done")]
    assert run.now.isoformat() == "2026-01-01T12:00:30+00:00"
    assert run.state["items"][2] == "2026-01-01T12:00:00+00:00"
    none = run_loom(small_loom(tmp_path, FLAKY, extra=retry.replace("3,", "2,")))
    assert (none.problem.code, none.problem.attempt) == ("STEP_FAILED", 2)
    assert [one.problem for one in none.steps][-1] == none.problem
    assert none.steps[0].problem.message == "ConnectionResetError: again"
    other = run_loom(small_loom(tmp_path, FLAKY, extra=retry.replace("ConnectionError", "KeyError")))
    assert other.problem.attempt == 1


@pytest.mark.rule("R7")
def test_unknown_outcomes_and_endless_loops_fail_the_run(tmp_path: Path) -> None:
    lost = run_loom(small_loom(tmp_path, "def run(step):\n    return 'Done'"))
    assert lost.problem.code == "STEP_OUTCOME_NOT_HANDLED"
    loop = YAML.replace("{ready: write, empty: end}", "{ready: write, empty: end, again: collect}")
    folder = write_loom(
        tmp_path / "loop", {"loom.yaml": loop}, steps=('return "ready" if step.input.count else', 'return "again" or')
    )
    run = run_loom(folder, {"topic": "x"})
    assert run.problem.code == "LOOP_LIMIT"
    assert run.problem.message == "Step draft.collect has used up its max_visits of 5."
    assert len(run.steps) == 5


@pytest.mark.rule("R6", "R7")
def test_an_outcome_without_a_route_leaves_nothing(tmp_path: Path) -> None:
    code = """
    def run(step):
        step.put_artifact(1)
        step.update(items=["lost"])
        return "Done"
    """
    run = run_loom(small_loom(tmp_path, code))
    assert [(one.ended, one.problem.code) for one in run.steps] == [("failed", "STEP_OUTCOME_NOT_HANDLED")]
    assert run.artifact("main") is None
    assert run.state["items"] == []


@pytest.mark.rule("R12")
def test_each_part_of_a_visit_has_a_key_and_random_numbers_of_its_own(tmp_path: Path) -> None:
    code = """
    def run(step):
        step.update(items=[step.idempotency_key, step.random.random()])
        return step.sleep_until(step.now(), then=woken)
    def woken(step):
        step.update(items=[*step.state.items, step.idempotency_key, step.random.random()])
        return "done"
    """
    folder = small_loom(tmp_path, code)
    first, again, other = (run_loom(folder, random_seed=seed).state["items"] for seed in (0, 0, 1))
    assert first == again
    assert first[0] != first[2] and first[1] != first[3]
    assert first[::2] == other[::2] and first[1::2] != other[1::2]


def test_sleeps_move_the_clock(tmp_path: Path) -> None:
    code = """
    def run(step):
        return step.sleep_until(step.now() + dt.timedelta(days=2), then=woken)
    def woken(step):
        step.update(when=step.now())
        return "done"
    """
    assert run_loom(small_loom(tmp_path, code)).state["when"] == "2026-01-03T12:00:00Z"


def test_conflicts_between_steps_follow_the_ledgers_rules(tmp_path: Path) -> None:
    code = """
    def run(step):
        step.create_artifact(1, artifact_id="x")
        step.append_record(step.attempt, record_id="r")
        return step.confirm("?", then=again)
    def again(step, answer):
        step.append_record(9, record_id="other")
        step.create_artifact(2)
        return "done"
    """
    run = run_loom(small_loom(tmp_path, code), answers=[True])
    assert run.problem.code == "STEP_FAILED"
    assert "ArtifactConflict" in run.problem.message
    assert run.records("main") == [1]


# -- scripts


def test_a_script_that_goes_as_expected(tmp_path: Path) -> None:
    script, problems = read_script(SCRIPT, "tests/x.yaml")
    assert problems == []
    assert play_script(write_loom(tmp_path / "notes"), script).mismatches == ()


@pytest.mark.parametrize(
    ("old", "new", "mismatch"),
    [
        ("outcome: done", "outcome: empty", "outcome: expected 'empty', the Run ended with 'done'"),
        ("publish.file]", "publish.fil]", "steps: expected"),
        ("by 1 words]", "by 2 words]", "artifacts.0.feedback.2: expected 'by 2 words', it is 'by 1 words'"),
        ("{stage: publish", "{stage: draft", "records.0: there is none of Stage draft"),
        ("data: {text: one two three}}", "data: {texts: 1}}", "records.0.texts: expected 1, there is none"),
        ("  - true\n", "", "outcome: expected 'done', the Run is waiting"),
        (
            "  outcome: done",
            "  error: {code: STEP_FAILED}",
            "error: expected STEP_FAILED '', the Run ended with 'done'",
        ),
        ("  outcome: done", "  state: {text: 1}", "state: expected {'text': 1}, it is None"),
    ],
)
def test_what_is_not_as_expected_is_told(old: str, new: str, mismatch: str, tmp_path: Path) -> None:
    script, _ = read_script(SCRIPT.replace(old, new), "x.yaml")
    found = play_script(write_loom(tmp_path / "notes"), script).mismatches
    assert any(mismatch in one for one in found), found


def test_a_script_sets_the_time_the_seed_and_what_is_there_before(tmp_path: Path) -> None:
    code = """
    def run(step):
        before = step.artifacts.get("small", "main")
        step.update(items=[before.revision, step.now().isoformat(), step.random.random()])
        step.put_artifact(2)
        return "done"
    """
    small_loom(tmp_path, code)
    folder = next(tmp_path.glob("small*"))
    text = """
    now: 2026-03-01T08:00:00+01:00
    random_seed: 7
    given: {artifacts: [{stage: main, data: 1}]}
    expect: {outcome: done}
    """
    script, problems = read_script(textwrap.dedent(text), "x.yaml")
    assert problems == []
    played = play_script(folder, script)
    assert played.mismatches == ()
    revision, now, number = played.run.state["items"]
    assert (revision, now) == (1, "2026-03-01T07:00:00+00:00")
    assert number != play_script(folder, script.model_copy(update={"random_seed": 8})).run.state["items"][2]
    assert played.run.results.artifact_at("small", "main").revision == 2


@pytest.mark.parametrize(
    ("line", "message", "suggestion"),
    [
        ("nows: 1", "`nows` is no key of a script.", "Did you mean `now`?"),
        ("given: {now: 1}", "`given.now` is no key of a script.", "There is: artifacts, records."),
        ("expect: {outcom: a}", "`expect.outcom` is no key of a script.", "Did you mean `outcome`?"),
        ("expect: {error: {kode: a}}", "`expect.error.code` is missing.", "Add `code:`."),
        ("expect: {records: [{stages: a}]}", "`expect.records.0.stage` is missing.", "Add `stage:`."),
        ("agents: {a: [{outputs: {}}]}", "`agents.a.0.output` is missing.", "Add `output:`."),
        (
            "agents: {calls: [{output: {}, calls: [{tool: a, inputs: 1}]}]}",
            "`agents.calls.0.calls.0.inputs` is no key of a script.",
            "Did you mean `input`?",
        ),
        ("now: 2026-03-01", "`now`: write a time with its zone, such as 2026-03-01T08:00:00Z.", None),
        ("now: 5", "`now`: write a time with its zone, such as 2026-03-01T08:00:00Z.", None),
        ("answers: 5", "`answers`: input should be a valid list.", None),
    ],
)
def test_a_script_with_a_mistake_is_told_the_keys_that_belong_there(
    line: str, message: str, suggestion: str | None
) -> None:
    script, problems = read_script(line, "x.yaml")
    assert script is None
    assert (message, suggestion) in [(one.message, one.suggestion) for one in problems]


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ("expect:", "expects:", 14, "`expects`"),
        ("input:", "input: 1\ninput:", 3, "twice"),
        ("- {tool: save-draft, input: {text: one", "- {tool: 5, input: {text: one", 6, "agents.write.0.calls.0.tool"),
        ("answers:", "files: {../x: a}\nanswers:", 11, "inside the folder"),
    ],
)
def test_a_wrong_script_is_told_with_its_line(old: str, new: str, line: int, message: str) -> None:
    script, (problem, *_) = read_script(SCRIPT.replace(old, new, 1), "x.yaml")
    assert script is None
    assert (problem.line, problem.file) == (line, "x.yaml")
    assert message in problem.message


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*/tests/*.yaml")), ids=lambda path: path.stem)
def test_the_examples_do_what_their_scripts_say(path: Path) -> None:
    script, problems = read_script(path.read_text(), path.name)
    assert problems == []
    assert play_script(path.parent.parent, script).mismatches == ()


def test_every_example_has_a_script() -> None:
    looms = {path.parent for path in EXAMPLES.glob("*/loom.yaml")}
    assert {path.name for path in looms} >= {"capture", "intent", "inventory", "review"}
    assert looms == {path.parent.parent for path in EXAMPLES.glob("*/tests/*.yaml")}
