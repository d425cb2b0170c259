"""The page about the Loom ``intent`` says what the Loom is."""

from __future__ import annotations

import json
import re

import pytest
from docs_pages import ROOT, blocks, prose, table

from apps.looms.pictures import mermaid
from apps.looms.sources import EXAMPLES
from apps.looms.testing import load_folder

PAGE = ROOT / "docs" / "explanation" / "the-intent-loom.md"
FOLDER = EXAMPLES / "intent"
LOOM = load_folder(FOLDER, {}).loom
assert LOOM is not None


def test_the_picture_is_that_of_its_graph() -> None:
    assert [block.text for block in blocks(PAGE) if block.language == "mermaid"] == [mermaid(LOOM.graph)]


def test_the_tools_of_each_agent_are_those_that_it_has() -> None:
    shown = {row["agent"]: re.findall(r"\w+", row["Tools of its own"]) for row in table(PAGE, "agent")}
    declared = {
        task.agent_id: [tool.id for tool in task.tools if tool.id not in ("list_files", "read_file")]
        for task in LOOM.agents.values()
    }
    assert shown == declared


def test_the_settings_and_their_defaults_are_those_of_the_loom() -> None:
    shown = {row["variable"]: row["default"] for row in table(PAGE, "variable")}
    fields = type(LOOM.settings).model_fields.items()
    assert shown == {f"LOOM_INTENT_{name.upper()}": json.dumps(f.default).replace('""', "none") for name, f in fields}


def test_every_stage_is_in_the_table_of_what_is_filed() -> None:
    assert [row["Stage"] for row in table(PAGE, "Stage")] == list(LOOM.graph.stages)


def test_the_input_that_is_shown_fits_and_is_that_of_the_script() -> None:
    (shown,) = [json.loads(block.text) for block in blocks(PAGE) if block.language == "json"]
    assert LOOM.check_input(shown) == []
    script = (FOLDER / "tests" / "wordcount.yaml").read_text(encoding="utf-8")
    assert shown["wish"] in script


def test_its_files_are_all_named() -> None:
    named = {name for row in table(PAGE, "file") for name in re.findall(r"[\w.]+\.(?:py|yaml)", row["file"])}
    assert named == {path.name for path in FOLDER.iterdir() if path.suffix in (".py", ".yaml")}


@pytest.mark.parametrize(("text", "value"), [("up to 1,000", "MAX_FILES = 1000"), ("64 MiB", "= 64 * 1024 * 1024")])
def test_the_bounds_are_those_of_the_workspace(text: str, value: str) -> None:
    assert text in prose(PAGE)
    assert value in (FOLDER / "workspace.py").read_text(encoding="utf-8")
