"""Segments whose Code fails or returns what cannot be kept: a value comes back that says why, and nothing of it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from apps.looms.importing import close_package
from apps.looms.segments import (
    AnswerInput,
    Failed,
    Outcome,
    SegmentKind,
    run_segment,
)
from tests.unit.looms.loom_folders import CONTINUE, failure, run_code, segment, small_loom


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


def test_an_initializer_that_returns_no_state_is_refused(tmp_path: Path) -> None:
    loom = small_loom(tmp_path, "def start(context):\n    return {'text': 'x'}\ndef run(step): ...")
    output = run_segment(segment(loom, kind=SegmentKind.INITIALIZE, state=None))
    assert isinstance(output.ending, Failed)
    assert output.ending.code == "STATE_INVALID"
    assert "must be a State, not dict" in output.ending.message


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


@pytest.mark.parametrize("state", [None, {"text": 5}, {"text": "x", "items": "no"}, [], "x"])
def test_a_stored_state_that_does_not_fit_is_refused_before_code_runs(state: object, tmp_path: Path) -> None:
    ran: dict[str, bool] = {}
    code = "def run(step):\n    step.input['ran'] = True\n    return 'done'"
    output = run_code(tmp_path, code, input=ran, state=state)
    assert isinstance(output.ending, Failed)
    assert (output.ending.code, ran) == ("STATE_INVALID", {})


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


def test_a_release_that_was_put_away_fails_its_continuations_without_raising(tmp_path: Path) -> None:
    loom = small_loom(tmp_path, "def run(step): ...\ndef go_on(step):\n    return 'done'")
    close_package(loom.package)
    again = segment(loom, kind=SegmentKind.CONTINUATION, continuation="steps:go_on", answer=AnswerInput("sleep"))
    assert isinstance(run_segment(again).ending, Failed)
