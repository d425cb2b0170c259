"""What a sound Loom folder is loaded as: its graph, its agents, its settings, what it takes as input."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.unit.looms.loom_folders import STEPS, YAML, check, load, write_loom


def line_of(text: str, part: str) -> int:
    return next(number for number, line in enumerate(text.splitlines(), start=1) if part in line)


def test_the_sound_loom_has_nothing_to_report_and_loads(tmp_path: Path) -> None:
    checked = check(write_loom(tmp_path / "notes"))
    assert checked.diagnostics == ()
    assert checked.loom is not None
    assert checked.loom.graph.step("draft", "collect").timeout_seconds == 30
    assert checked.loom.graph.step("draft", "collect").retry.errors == ("ConnectionError",)
    task = checked.loom.agents["draft", "write"]
    assert [tool.id for tool in task.tools] == ["read_notes", "save-draft"]
    assert task.end_tool == "save-draft"
    assert [(asset.id, asset.size) for asset in task.skills[0].assets] == [("style/words.txt", 10)]


def test_yaml_is_read_as_version_1_2(tmp_path: Path) -> None:
    text = YAML.replace("{ready: write, empty: end}", "{yes: write, no: end}").replace("{empty: end,", "{no: end,")
    loom = load(write_loom(tmp_path / "notes", {"loom.yaml": text}))
    assert dict(loom.graph.step("draft", "collect").on) == {"yes": "write", "no": "end"}


def test_a_missing_setting_is_named_by_its_variable_and_no_value_is_shown(tmp_path: Path) -> None:
    model = "class Settings(BaseModel):\n    token: SecretStr\n    limit: int = 1\n    hosts: list[str] = []\n"
    old = 'class Settings(BaseModel):\n    token: SecretStr = SecretStr("sesame-open")\n'
    folder = write_loom(tmp_path / "notes", schemas=(old, model))
    (missing,) = check(folder, {}).diagnostics
    assert missing.message == "The setting LOOM_NOTES_TOKEN is missing."
    assert missing.line == line_of(YAML, "settings:")
    (wrong,) = check(folder, {"LOOM_NOTES_TOKEN": "t0ps3cret", "LOOM_NOTES_LIMIT": "many-s3cret"}).diagnostics
    assert "LOOM_NOTES_LIMIT" in wrong.message
    assert "s3cret" not in str(wrong)
    loom = load(folder, {"LOOM_NOTES_TOKEN": "t0ps3cret", "LOOM_NOTES_LIMIT": "5", "LOOM_NOTES_HOSTS": '["a", "b"]'})
    assert (loom.settings.limit, loom.settings.hosts) == (5, ["a", "b"])
    assert "t0ps3cret" not in repr(loom)


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("IOError", "OSError"),
        ("socket.timeout", "TimeoutError"),
        ("json.JSONDecodeError", "json.decoder.JSONDecodeError"),
        ("httpx.TransportError", "httpx.TransportError"),
        ("ArtifactConflict", "ArtifactConflict"),
        ("loomsvc.authoring.ArtifactConflict", "ArtifactConflict"),
        ("steps.Busy", "steps.Busy"),
    ],
)
def test_errors_are_kept_under_the_name_that_a_raised_exception_has(given: str, kept: str, tmp_path: Path) -> None:
    steps = STEPS + "\nclass Busy(Exception): ...\n"
    text = YAML.replace("[ConnectionError]", f"[{given}]")
    loom = load(write_loom(tmp_path / "notes", {"steps.py": steps, "loom.yaml": text}))
    assert loom.graph.step("draft", "collect").retry.errors == (kept,)


@pytest.mark.rule("R5", "E3")
@pytest.mark.parametrize(
    ("value", "paths"),
    [
        ({"topic": "x"}, []),
        ({"topic": "x", "count": "1"}, ["/count"]),
        ({"count": 1.5}, ["/topic", "/count"]),
        ("x", [""]),
        (None, [""]),
        ({"topic": "\x00"}, ["/topic"]),
        ({"topic": "x", "count": 2**53}, ["/count"]),
    ],
)
def test_input_is_checked_against_the_declared_model(value: object, paths: list[str], tmp_path: Path) -> None:
    loom = load(write_loom(tmp_path / "notes"))
    assert sorted(issue.path for issue in loom.check_input(value)) == sorted(paths)
    assert loom.input_schema()["required"] == ["topic"]


@pytest.mark.rule("R5")
@pytest.mark.parametrize(
    ("value", "fits"),
    [("x", True), (0, True), (None, True), ([], True), ("", False), (" \n", False), ("\ud800", False)],
)
def test_without_a_model_any_json_but_blank_text_is_taken(value: object, fits: bool, tmp_path: Path) -> None:
    loom = load(write_loom(tmp_path / "notes", loom_yaml=("input: schemas:Input\n", "")))
    assert (loom.check_input(value) == []) is fits
    assert loom.input_schema() is None


def test_the_authors_folder_is_never_written_to(tmp_path: Path) -> None:
    folder = write_loom(tmp_path / "notes")
    before = sorted(os.walk(folder))
    load(folder)
    assert sorted(os.walk(folder)) == before
