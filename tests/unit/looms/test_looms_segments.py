"""Segments: whatever Code does, a value comes back that says what came of it."""

from __future__ import annotations

import datetime as dt
import time
from pathlib import Path
from typing import Any

import pytest

from apps.looms.importing import close_package
from apps.looms.memory_results import MemoryResults
from apps.looms.segments import (
    AnswerInput,
    AppendRecord,
    ArtifactRead,
    ArtifactValue,
    Ask,
    Confirm,
    CreateArtifact,
    Failed,
    Outcome,
    RecordRead,
    RecordValue,
    RemoveArtifact,
    ReplaceArtifact,
    SegmentKind,
    Sleep,
    run_segment,
)
from tests.unit.looms.loom_folders import load, run_code, segment, small_loom, write_loom

BEFORE = {"text": "before", "items": [], "when": None}


def failure(output: Any) -> Failed:
    assert isinstance(output.ending, Failed), output.ending
    assert output.staged == ()
    assert output.state == BEFORE
    assert output.state_changed is False
    return output.ending


# -- endings


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


@pytest.mark.parametrize(
    ("returned", "named"),
    [
        ("None", "None"),
        ("5", "int"),
        ('""', "''"),
        ('"  "', "'  '"),
        ('b"done"', "bytes"),
        ("True", "bool"),
        ('["done"]', "list"),
        ("step", "CodeStep"),
        ("Wait()", "Wait"),
        ('enum.StrEnum("E", "done").done', "E"),
        ('"a\\nb"', "a\\nb"),
        ('"x" * 201', "xxx"),
        ('"\\ud800"', "ud800"),
    ],
)
def test_a_wrong_result_is_named_with_what_is_expected(returned: str, named: str, tmp_path: Path) -> None:
    found = failure(run_code(tmp_path, f"def run(step):\n    step.put_artifact(1)\n    return {returned}"))
    assert found.code == "STEP_RESULT_INVALID"
    assert named in found.message
    assert "(done)" in found.message
    assert found.error_names == ()


CONTINUE = "\ndef go_on(step, *answer):\n    return 'done'\n"


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


@pytest.mark.parametrize(
    ("call", "named"),
    [
        ("ask([], then=go_on)", "1 to 100"),
        ("ask('what?', then=go_on)", "list of Question"),
        ("ask(['what?'], then=go_on)", "Question objects"),
        ("ask([Question('a', '')], then=go_on)", "nonblank"),
        ("ask([Question('', 'A?')], then=go_on)", "1 to 200"),
        ("ask([Question('a', 'A?'), Question('a', 'B?')], then=go_on)", "'a' comes twice"),
        ("ask([Question('a', 'A?', options=[Option('x', 'X'), Option('x', 'Y')])], then=go_on)", "'x' comes twice"),
        ("ask([Question('a', 'A?', is_skippable=1)], then=go_on)", "True or False"),
        ("ask([Question('a', 'A\\x00?')], then=go_on)", "NUL"),
        ("confirm('', then=go_on)", "nonblank"),
        ("confirm('x' * 2_000_000, then=go_on)", "bytes"),
        ("confirm('ok?', then=lambda step, answer: 'done')", "<lambda>"),
        ("confirm('ok?', then=print)", "print"),
        ("confirm('ok?', then='go_on')", "str"),
        ("confirm('ok?', then=go_on, only_person=1)", "only_person"),
        ("sleep_until(dt.datetime(2026, 1, 1), then=go_on)", "time zone"),
        ("sleep_until(60, then=go_on)", "time zone"),
    ],
)
def test_waits_that_could_not_be_shown_or_ended_are_refused(call: str, named: str, tmp_path: Path) -> None:
    found = failure(run_code(tmp_path, f"def run(step):\n    return step.{call}" + CONTINUE))
    assert found.code == "STEP_RESULT_INVALID"
    assert named in found.message


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


def test_an_initializer_that_returns_no_state_is_refused(tmp_path: Path) -> None:
    loom = small_loom(tmp_path, "def start(context):\n    return {'text': 'x'}\ndef run(step): ...")
    output = run_segment(segment(loom, kind=SegmentKind.INITIALIZE, state=None))
    assert isinstance(output.ending, Failed)
    assert output.ending.code == "STATE_INVALID"
    assert "must be a State, not dict" in output.ending.message


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


# -- failures


@pytest.mark.rule("R6", "F3")
@pytest.mark.parametrize(
    ("raising", "message", "names"),
    [
        ('raise ValueError("no")', "ValueError: no", {"ValueError", "Exception", "builtins.ValueError"}),
        ("1 / 0", "ZeroDivisionError: division by zero", {"ZeroDivisionError", "ArithmeticError"}),
        ("sys.exit(3)", "SystemExit: 3", {"SystemExit", "BaseException"}),
        ("raise KeyboardInterrupt", "KeyboardInterrupt", {"KeyboardInterrupt"}),
        ("raise GeneratorExit", "GeneratorExit", {"GeneratorExit"}),
        ("raise asyncio.CancelledError", "CancelledError", {"asyncio.exceptions.CancelledError"}),
        ("raise MemoryError", "MemoryError", {"MemoryError"}),
        ("def f(): return f()\n    f()", "RecursionError", {"RecursionError", "RuntimeError"}),
        ("raise ConnectionResetError(104, 'reset')", "ConnectionResetError", {"ConnectionError", "OSError"}),
        (
            "class Odd(Exception):\n        def __str__(self): sys.exit(1)\n    raise Odd",
            "Odd: (its text",
            {"Exception"},
        ),
        ("raise Own('mine')", "Own: mine", {"steps.Own", "LookupError"}),
        ("raise ExceptionGroup('two', [ValueError(), TypeError()])", "ExceptionGroup: two", {"ExceptionGroup"}),
        ("raise ArtifactConflict('taken')", "ArtifactConflict: taken", {"ArtifactConflict"}),
        ("raise ValueError('x' * 5000)", "xxx…", {"ValueError"}),
        ("raise ValueError('a\\nb\\x00\\x1b[31m\\r')", "ValueError: a b\\x00\\x1b[31m\\r", {"ValueError"}),
        ("open('/etc/no/such.txt')", "'…/such.txt'", {"FileNotFoundError", "OSError"}),
        ("from . import nothing_here", "ImportError: cannot import name 'nothing_here' from ''", {"ImportError"}),
        ("from .gone import x", "ModuleNotFoundError: No module named 'gone'", {"ImportError"}),
        ("raise ValueError('GET https://a.example/b/c and /items/0')", "https://a.example/b/c and /items/0", set()),
        ("raise ValueError('token sesame-open')", "token [secret]", {"ValueError"}),
        ("raise ValueError('c2VzYW1lLW9wZW4=')", "[secret]", {"ValueError"}),
    ],
)
@pytest.mark.parametrize("prefix", ["def", "async def"])
def test_whatever_code_raises_becomes_a_failure(
    prefix: str, raising: str, message: str, names: set[str], tmp_path: Path
) -> None:
    code = (
        f"class Own(LookupError): ...\n{prefix} run(step):\n    step.put_artifact(1)\n    {raising}\n    return 'done'"
    )
    found = failure(run_code(tmp_path, code))
    assert found.code == "STEP_FAILED"
    assert message in found.message
    assert len(found.message) <= 2000
    assert found.message.isprintable()
    assert names <= set(found.error_names)


def test_the_line_that_raised_is_in_the_log_by_its_file_in_the_folder(tmp_path: Path) -> None:
    output = run_code(tmp_path, "def run(step):\n    helper()\ndef helper():\n    1 / 0")
    (line,) = output.log
    assert line.message.startswith("steps.py, line ")
    assert line.message.endswith("in helper")
    assert str(tmp_path) not in line.message


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ("step.update(text=5)", "/text"),
        ("step.update(nothing=1)", "no nothing"),
        ("step.state = {'text': 'x'}", "not dict"),
        ("step.state = None", "not NoneType"),
        ("step.update(items=[float('nan')])", "NaN"),
        ("step.state.items.append({'mean': float('inf')})", "infinity"),
        ("step.update(items=[2**53])", "/items/0"),
        ("step.update(text='a\\x00')", "/text"),
        ("step.update(items=[object()])", ""),
        ("step.update(text='sesame-open')", "secret setting"),
        ("step.update(text='Bearer sesame-open.')", "secret setting"),
        ("step.update(items=['1234'])", "secret setting"),
        ("step.update(items=[{'sesame-open': 1}])", "secret setting"),
        ("step.update(text='x' * 2_000_000)", "bytes"),
        ("step.state.items.append(step.state.items)", ""),
    ],
)
def test_a_state_that_cannot_be_kept_is_refused(change: str, named: str, tmp_path: Path) -> None:
    found = failure(run_code(tmp_path, f"def run(step):\n    {change}\n    return 'done'"))
    assert found.code in ("STATE_INVALID", "STEP_FAILED")
    assert named in found.message
    assert "sesame" not in found.message


def test_a_short_secret_is_refused_as_a_whole_text_only(tmp_path: Path) -> None:
    output = run_code(tmp_path, "def run(step):\n    step.update(text='in 1234 ways')\n    return 'done'")
    assert output.ending == Outcome("done")


@pytest.mark.rule("K18", "K23")
@pytest.mark.parametrize(
    ("call", "named"),
    [
        ("put_artifact(float('inf'))", "finite"),
        ("put_artifact({1: 2})", "string as member name"),
        ("put_artifact({'a': {1, 2}})", "/a"),
        ("put_artifact(b'x')", "bytes"),
        ("put_artifact(['sesame-open'])", "secret setting"),
        ("append_record('sesame-open')", "secret setting"),
        ("append_record(1, record_id='sesame-open')", "printable"),
        ("append_record(1, record_id='')", "1 to 200"),
        ("append_record(1, record_id='x' * 201)", "1 to 200"),
        ("append_record(1, record_id='a\\n')", "printable"),
        ("create_artifact(1, artifact_id=5)", "text"),
        ("replace_artifact('a', expected_revision=0, data=1)", "whole number"),
        ("replace_artifact('a', expected_revision=True, data=1)", "whole number"),
        ("remove_artifact('a', expected_revision='1')", "whole number"),
        ("confirm('sesame-open', then=go_on)", "secret setting"),
    ],
)
def test_results_out_of_bounds_are_refused(call: str, named: str, tmp_path: Path) -> None:
    found = failure(run_code(tmp_path, f"def run(step):\n    step.{call}\n    return 'done'" + CONTINUE))
    assert found.code == "STEP_RESULT_INVALID"
    assert named in found.message
    assert "sesame" not in found.message


def test_an_outcome_that_is_a_secret_is_refused(tmp_path: Path) -> None:
    found = failure(run_code(tmp_path, "def run(step):\n    return step.settings.token.get_secret_value()"))
    assert found.code == "STEP_RESULT_INVALID"
    assert "sesame" not in found.message


@pytest.mark.parametrize("state", [None, {}, {"text": 5}, {"text": "x", "items": "no"}, [], "x"])
def test_a_stored_state_that_does_not_fit_is_refused_before_code_runs(state: object, tmp_path: Path) -> None:
    code = "def run(step):\n    open('/nowhere/at/all')\n    return 'done'"
    output = run_code(tmp_path, code.replace("State", "State"), state=state)
    assert isinstance(output.ending, Failed)
    if state != {}:
        assert output.ending.code == "STATE_INVALID"


@pytest.mark.rule("FR-D3", "K25", "K18")
def test_log_lines_are_escaped_bounded_and_without_secrets(tmp_path: Path) -> None:
    output = run_code(
        tmp_path,
        """
        def run(step):
            step.log.info(b"\\x00")
            step.log.warning("a\\nb\\x1b[31m \\ud800 %s", "sesame-open")
            step.log.error("%d", "no number")
            step.log.debug("x" * 10_000)
            for number in range(2000):
                step.log.info(number)
            return "done"
        """,
    )
    assert output.ending == Outcome("done")
    assert all(line.message.isprintable() and len(line.message) <= 2000 for line in output.log)
    assert len(output.log) == 1001
    assert output.log[1].message == "a\\nb\\x1b[31m \\ud800 [secret]"


def test_printing_goes_where_it_always_goes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_code(tmp_path, "def run(step):\n    print('hello')\n    return 'done'").ending == Outcome("done")
    assert capsys.readouterr().out == "hello\n"


# -- timeouts


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


# -- results


class Reads(MemoryResults):
    def __init__(self) -> None:
        super().__init__()
        self.artifacts["a"] = ArtifactValue("a", "small", "main", 3, {"n": 1})
        self.artifacts["b"] = ArtifactValue("b", "other", "main", 1, {"n": 2})
        self.records["r"] = RecordValue("r", "small", "main", [1])


@pytest.mark.rule("S3", "S4")
@pytest.mark.parametrize(
    ("body", "staged"),
    [
        ("step.put_artifact(1)", (ReplaceArtifact("a", 3, 1),)),
        ("step.put_artifact(1); step.put_artifact(2)", (ReplaceArtifact("a", 3, 2),)),
        ("step.artifacts.get('small', 'main'); step.put_artifact(1)", (ReplaceArtifact("a", 3, 1),)),
        (
            "step.remove_artifact('a', expected_revision=3); step.put_artifact(1)",
            (RemoveArtifact("a", 3), CreateArtifact("id-1", 1)),
        ),
        ("step.put_artifact(1); step.remove_artifact('a', expected_revision=4)", (RemoveArtifact("a", 3),)),
        ("step.replace_artifact('b', expected_revision=1, data=1)", (ReplaceArtifact("b", 1, 1),)),
        ("step.create_artifact(1, artifact_id='x'); step.put_artifact(2)", (CreateArtifact("x", 2),)),
        ("step.create_artifact(1, artifact_id='x'); step.remove_artifact('x', expected_revision=1)", ()),
        ("step.append_record(1, record_id='q'); step.append_record(1, record_id='q')", (AppendRecord("q", 1),)),
        ("step.append_record(1.0, record_id='q'); step.append_record(1, record_id='q')", (AppendRecord("q", 1.0),)),
        (
            "step.append_record(State(text='m'), record_id='q')",
            (AppendRecord("q", {"text": "m", "items": [], "when": None}),),
        ),
        ("d = {'n': 1}; step.append_record(d, record_id='q'); d['n'] = 2", (AppendRecord("q", {"n": 1}),)),
        (
            "step.artifacts.get_by_id('a').data['n'] = 9; step.put_artifact(step.artifacts.get_by_id('a').data)",
            (ReplaceArtifact("a", 3, {"n": 1}),),
        ),
    ],
)
def test_what_is_staged_is_drawn_together(body: str, staged: tuple[object, ...], tmp_path: Path) -> None:
    output = run_code(tmp_path, f"def run(step):\n    {body}\n    return 'done'", results=Reads())
    assert output.ending == Outcome("done")
    assert output.staged == staged


@pytest.mark.rule("S3", "S4")
@pytest.mark.parametrize(
    ("body", "name"),
    [
        ("step.create_artifact(1); step.create_artifact(2)", "ArtifactConflict"),
        ("step.put_artifact(1); step.replace_artifact('a', expected_revision=3, data=2)", "ArtifactConflict"),
        (
            "step.remove_artifact('a', expected_revision=3); step.remove_artifact('a', expected_revision=3)",
            "ArtifactConflict",
        ),
        ("step.append_record(1, record_id='q'); step.append_record(2, record_id='q')", "RecordConflict"),
    ],
)
def test_what_contradicts_itself_within_a_step_fails_it(body: str, name: str, tmp_path: Path) -> None:
    found = failure(run_code(tmp_path, f"def run(step):\n    {body}\n    return 'done'", results=Reads()))
    assert found.code == "STEP_FAILED"
    assert any(one.endswith(name) for one in found.error_names)


@pytest.mark.rule("M1")
def test_a_step_sees_what_it_staged_and_its_reads_are_noted_once(tmp_path: Path) -> None:
    output = run_code(
        tmp_path,
        """
        def run(step):
            seen = [step.artifacts.get("small", "main").revision, step.artifacts.get_by_id("b").data]
            step.put_artifact("mine")
            step.append_record("new", record_id="q")
            seen += [step.artifacts.get("small", "main").data, step.artifacts.get_by_id("a").revision]
            seen += [step.records.get("r").data, step.records.get("q").data, step.records.get("none")]
            seen += [step.records.latest("small", "main").record_id, step.records.latest("other", "main")]
            seen += [step.artifacts.get("none", "main"), step.artifacts.get_by_id("none")]
            step.update(items=seen)
            return "done"
        """,
        results=Reads(),
    )
    assert output.ending == Outcome("done")
    assert output.state["items"] == [3, {"n": 2}, "mine", 4, [1], "new", None, "q", None, None, None]
    assert output.reads == (
        ArtifactRead("a", 3, "small", "main"),
        ArtifactRead("b", 1, "other", "main"),
        RecordRead("r"),
    )


# -- packages


def test_two_releases_of_a_loom_run_side_by_side(tmp_path: Path) -> None:
    first = small_loom(tmp_path, "WORD = 'one'\ndef run(step):\n    step.update(text=WORD)\n    return 'done'")
    second = small_loom(tmp_path, "WORD = 'two'\ndef run(step):\n    step.update(text=WORD)\n    return 'done'")
    assert first.package != second.package
    assert first.digest in first.package
    assert [run_segment(segment(loom)).state["text"] for loom in (first, second, first)] == ["one", "two", "one"]


def test_a_release_that_was_put_away_fails_its_continuations_without_raising(tmp_path: Path) -> None:
    loom = small_loom(tmp_path, "def run(step): ...\ndef go_on(step):\n    return 'done'")
    close_package(loom.package)
    again = segment(loom, kind=SegmentKind.CONTINUATION, continuation="steps:go_on", answer=AnswerInput("sleep"))
    assert isinstance(run_segment(again).ending, Failed)
