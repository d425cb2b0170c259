"""The Looms that the pages show load without a complaint and do what their scripts say."""

from __future__ import annotations

import json
import re
import textwrap
from pathlib import Path

import pytest
from docs_pages import PAGES, ROOT, Block, blocks, name_of

import loomsvc.authoring
from apps.looms.checking.graph_rules import check_graph
from apps.looms.checking.loom_file import read_loom_file
from apps.looms.checking.yaml_tree import read_yaml
from apps.looms.scripts import play_script, read_script
from apps.looms.testing import load_folder

FILES = {page: [block for block in blocks(page) if block.file] for page in PAGES}
LOOMS = sorted(
    (page, block.file.removesuffix("/loom.yaml"))
    for page, found in FILES.items()
    for block in found
    if block.file and block.file.endswith("/loom.yaml")
)


def written(page: Path, folder: Path) -> None:
    for block in FILES[page]:
        assert block.file
        path = folder / block.file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block.text, encoding="utf-8")


@pytest.mark.parametrize(("page", "loom"), LOOMS, ids=lambda part: str(part).rpartition("/")[2])
def test_a_loom_that_is_shown_loads_and_passes_the_scripts_that_are_shown(
    page: Path, loom: str, tmp_path: Path
) -> None:
    written(page, tmp_path)
    checked = load_folder(tmp_path / loom, {})
    assert [one.message for one in checked.diagnostics] == []
    assert checked.loom is not None
    for file in sorted((tmp_path / loom / "tests").glob("*.yaml")):
        script, problems = read_script(file.read_text(encoding="utf-8"), file.name)
        assert problems == []
        assert script is not None
        assert play_script(tmp_path / loom, script).mismatches == ()


def test_the_front_page_the_tutorial_and_the_guides_show_looms() -> None:
    assert {name_of(page) for page, _ in LOOMS} >= {
        "README.md",
        "docs/tutorial/first-loom.md",
        "docs/how-to/retry-and-repeat.md",
        "docs/how-to/pause-and-resume.md",
        "docs/how-to/ask-a-person.md",
        "docs/how-to/write-a-tool.md",
    }


def graphs() -> list[Block]:
    """Whole graphs that stand alone, to show keys."""
    return [b for page in PAGES for b in blocks(page) if b.language == "yaml" and b.text.startswith("loom: ")]


@pytest.mark.parametrize("block", graphs(), ids=lambda block: f"{name_of(block.page)}:{block.line}")
def test_a_graph_that_is_shown_hangs_together(block: Block) -> None:
    document, problems = read_yaml(block.text, "loom.yaml")
    assert document is not None
    assert problems == []
    graph, problems = read_loom_file(document)
    assert problems == []
    assert graph is not None
    assert check_graph(graph, document) == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_python_that_is_shown_can_be_read_and_imports_what_exists(page: Path) -> None:
    for block in blocks(page):
        if block.language == "python":
            # A fragment may be the inside of a Step.
            text = block.text if block.file else "def step():\n" + textwrap.indent(block.text, "    ")
            compile(text, name_of(page), "exec")
            for names in re.findall(r"from loomsvc\.authoring import (.+)", block.text):
                assert {name.strip() for name in names.split(",")} <= set(loomsvc.authoring.__all__)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_json_that_is_shown_is_json(page: Path) -> None:
    for block in blocks(page):
        if block.language == "json":
            json.loads(block.text)


def test_the_schemas_of_a_tool_that_are_shown_are_those_that_its_annotations_make(tmp_path: Path) -> None:
    page = ROOT / "docs" / "how-to" / "write-a-tool.md"
    written(page, tmp_path)
    loom = load_folder(tmp_path / "looms" / "glossary", {}).loom
    assert loom is not None
    (shown,) = (json.loads(block.text) for block in blocks(page) if block.language == "json")
    tool = loom.agents["write", "explain"].tool(shown["id"])
    assert tool is not None
    assert shown == {
        "id": tool.id,
        "description": tool.description,
        "inputSchema": tool.input_schema,
        "outputSchema": tool.output_schema,
    }


def test_a_page_names_a_file_once() -> None:
    for page, found in FILES.items():
        names = [block.file for block in found]
        assert len(names) == len(set(names)), name_of(page)
    assert (ROOT / "README.md") in FILES
