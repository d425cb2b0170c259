"""The Looms that other tests run are sound themselves, and do what their scripts say."""

from __future__ import annotations

from pathlib import Path

import pytest

from apps.looms.scripts import play_script, read_script
from apps.looms.testing import load_folder

LOOMS = Path(__file__).resolve().parents[2] / "looms"
FOLDERS = sorted(path.parent for path in LOOMS.glob("*/loom.yaml"))
SCRIPTS = sorted(LOOMS.glob("*/tests/*.yaml"))


@pytest.mark.parametrize(
    "folder", sorted(path.parent for path in LOOMS.glob("*/loom.yaml")), ids=lambda path: path.name
)
def test_a_loom_of_the_tests_loads_without_a_complaint(folder: Path) -> None:
    checked = load_folder(folder, {})
    assert checked.diagnostics == ()
    assert checked.loom is not None


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: f"{path.parent.parent.name}/{path.stem}")
def test_a_loom_of_the_tests_does_what_its_scripts_say(path: Path) -> None:
    script, problems = read_script(path.read_text(), path.name)
    assert problems == []
    assert script is not None
    assert play_script(path.parent.parent, script).mismatches == ()


def test_the_reports_two_scripts_are_played() -> None:
    assert {path.stem for path in SCRIPTS if path.parent.parent.name == "csv_report"} == {"totals", "empty"}
