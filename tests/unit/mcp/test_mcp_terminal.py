"""Options from contracts, prompts, and what may reach a terminal."""

from __future__ import annotations

import argparse
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console, Group

from apps.core.contracts import Contract, UuidText
from apps.core.endpoints import Endpoint, Kind
from apps.mcp.arguments import add_arguments, option, read_json, wire_arguments
from apps.mcp.asking import ask
from apps.mcp.terminal import commands, console, plain
from apps.mcp.views import runs


class Everything(Contract):
    operation_id: UuidText
    service_instance_id: UuidText
    run_id: str
    expected_revision: int
    answer: Any
    zip_code: str | None = None
    quick: bool = False


def endpoint(kind: Kind) -> Endpoint[Any, Any]:
    return Endpoint("all", "All", "All.", Everything, Everything, lambda caller, given: given, kind)


def parsed(*arguments: str, kind: Kind = Kind.OPERATION) -> dict[str, Any]:
    parser = argparse.ArgumentParser(exit_on_error=False)
    add_arguments(parser, endpoint(kind))
    return wire_arguments(endpoint(kind), vars(parser.parse_args(arguments)))


@pytest.mark.rule("FR-D15")
def test_members_become_arguments_and_text_stays_text() -> None:
    given = parsed("020", "--expected-revision", "7", "--answer", "null", "--zip-code", "0003000", "--quick")
    assert given == {"runId": "020", "expectedRevision": 7, "answer": None, "zipCode": "0003000", "quick": True}


def test_an_identity_may_be_left_out_of_a_write_but_not_of_a_look_up() -> None:
    assert "operationId" not in parsed("r", "--expected-revision", "1", "--answer", "1")
    whole = ("the-operation", "r", "--expected-revision", "1", "--answer", "1")
    given = parsed(*whole, "--service-instance-id", "i", kind=Kind.READ)
    assert (given["operationId"], given["serviceInstanceId"]) == ("the-operation", "i")
    with pytest.raises((argparse.ArgumentError, SystemExit)):
        parsed(*whole, kind=Kind.READ)


@pytest.mark.parametrize("number", ["x", "1.0", "1e3", "", "٣", " 7"])
def test_what_is_no_whole_number_is_refused(number: str) -> None:
    with pytest.raises(argparse.ArgumentError, match="not a whole number"):
        parsed("r", "--expected-revision", number, "--answer", "1")


def test_option_names_are_those_of_a_shell() -> None:
    assert [option(name) for name in ("loomName", "limit", "serviceInstanceId")] == [
        "--loom-name", "--limit", "--service-instance-id",
    ]  # fmt: skip


@pytest.mark.rule("K23", "FR-D13")
@pytest.mark.parametrize("text", ["020", "{", "NaN", '{"a": 1, "a": 2}', "9007199254740993", '"\\u0000"', "[" * 20_000])
def test_json_out_of_bounds_is_refused_before_it_is_sent(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        read_json(text)


def test_json_may_stand_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "input.json").write_text('{"a": "020"}')
    assert read_json(f"@{tmp_path / 'input.json'}") == {"a": "020"}
    (tmp_path / "latin.json").write_bytes(b'"\xff"')
    for name in ("latin.json", "none.json"):
        with pytest.raises(argparse.ArgumentTypeError):
            read_json(f"@{tmp_path / name}")


@pytest.mark.rule("K25")
@given(st.text())
def test_no_control_character_is_left_in_shown_text(text: str) -> None:
    shown = plain(text)
    assert not any(ord(character) < 32 and character not in "\n\t" for character in shown)
    assert not any(0x7F <= ord(character) < 0xA0 for character in shown)
    shown.encode()


def typing(*lines: str) -> Any:
    left: Iterator[str] = iter(lines)

    def read(_prompt: str) -> str:
        try:
            return next(left)
        except StopIteration:
            raise EOFError from None

    return read


def answered(action: dict[str, Any], *lines: str) -> tuple[Any, str]:
    file = io.StringIO()
    return ask(action, console=Console(file=file, width=100), read=typing(*lines)), file.getvalue()


OPTIONS = [{"id": "red", "label": "Red"}, {"id": "2", "label": "Blue", "description": "like the sea"}]
QUESTIONS = {
    "kind": "questions",
    "request": [
        {"id": "colour", "question": "Which?", "isSkippable": False, "options": OPTIONS},
        {"id": "more", "question": "More?", "isSkippable": True},
    ],
}


@pytest.mark.rule("H1")
@pytest.mark.parametrize(
    ("lines", "answers"),
    [
        (["1", ""], [("colour", "red"), ("more", None)]),
        (["2", " as typed "], [("colour", "2"), ("more", " as typed ")]),
        (["3", "020"], [("colour", "3"), ("more", "020")]),
        (["", " ", "green", ""], [("colour", "green"), ("more", None)]),
    ],
)
def test_questions_are_asked_until_each_is_answered_or_may_be_skipped(
    lines: list[str], answers: list[tuple[str, str | None]]
) -> None:
    given, shown = answered(QUESTIONS, *lines)
    assert given == [
        {"questionId": key, "isSkipped": True}
        if text is None
        else {"questionId": key, "isSkipped": False, "answer": text}
        for key, text in answers
    ]
    assert "2  Blue  like the sea" in shown


@pytest.mark.rule("H2")
@pytest.mark.parametrize(
    ("lines", "answer"),
    [
        (["y", ""], {"isConfirmed": True}),
        (["maybe", "NO", "too long"], {"isConfirmed": False, "feedback": "too long"}),
    ],
)
def test_a_confirmation_takes_yes_or_no_and_feedback(lines: list[str], answer: dict[str, Any]) -> None:
    given, shown = answered({"kind": "confirmation", "request": {"context": "Go **on**? \x1b[2J"}}, *lines)
    assert given == answer
    assert "\x1b[2J" not in shown


@pytest.mark.rule("H5")
def test_an_end_of_input_answers_nothing() -> None:
    assert answered(QUESTIONS, "1")[0] is None


@pytest.mark.rule("FR-H9")
def test_a_link_of_a_confirmation_shows_where_it_leads() -> None:
    context = "[the harmless page](https://evil.example/x)"
    _, shown = answered({"kind": "confirmation", "request": {"context": context}}, "y", "")
    assert "https://evil.example/x" in shown
    assert json.dumps(shown).count("\\u001b") == 0


@pytest.mark.parametrize("width", [80, 100])
def test_a_list_of_runs_keeps_ids_whole_and_shows_status_as_sign_and_word(width: int) -> None:
    run = {
        "runId": "01a22c7e-2f63-749f-84f7-a6800ea255ac", "status": "failed", "loomName": "trial", "historical": True,
        "cursor": {"stage": "work", "step": "act", "visit": 2}, "lastError": {"code": "STEP_OUTCOME_NOT_HANDLED"},
        "pauseRequested": False, "createdAt": "2026-11-30T12:46:36.000000Z",
    }  # fmt: skip
    file = io.StringIO()
    Console(file=file, width=width).print(runs({"runs": [run], "nextCursor": "abc"}))
    assert run["runId"] in file.getvalue()
    assert "✗ failed" in file.getvalue()
    assert "--cursor abc" in file.getvalue()


class Terminal(io.StringIO):
    """A file that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_a_command_to_go_on_with_is_one_line_in_a_narrow_terminal_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two lines would be two commands to whoever copies them, and the first is run without its `--data`."""
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("TERM", "xterm")
    shown = Terminal()
    command = "loomsvc resume_run 01a22eaa-e314-747b-a235-ff707b5e94d6 --expected-revision 1"
    console(shown).print(Group("Go on with:", commands(command)))
    assert f"  {command}" in shown.getvalue().splitlines()[1]
