"""Schemas of unusual shape: what an agent's output must be, and types that contain themselves."""

from __future__ import annotations

from pathlib import Path

import pytest

from apps.looms.tool_calls import check_arguments
from tests.unit.looms.loom_folders import SCHEMAS, check, load, write_loom


@pytest.mark.rule("FR-F9")
@pytest.mark.parametrize("content", ["list[str]", "int"])
def test_an_output_that_is_a_list_or_a_number_is_refused_where_the_loom_names_it(tmp_path: Path, content: str) -> None:
    schemas = f"{SCHEMAS}\nfrom pydantic import RootModel\n\nclass Bare(RootModel[{content}]):\n    pass\n"
    folder = write_loom(
        tmp_path / "notes", {"schemas.py": schemas}, loom_yaml=("output: schemas:Written", "output: schemas:Bare")
    )
    (problem,) = [d for d in check(folder).diagnostics if "schemas:Bare" in d.message]
    assert (problem.file, problem.suggestion) == ("loom.yaml", "Derive it from BaseModel, not RootModel.")
    assert problem.line is not None


@pytest.mark.rule("FR-F13", "A3")
def test_a_tool_takes_a_type_that_contains_itself_and_points_into_its_depths(tmp_path: Path) -> None:
    schemas = (
        SCHEMAS
        + "\nclass Left(BaseModel):\n    right: 'Right | None' = None\n"
        + "\nclass Right(BaseModel):\n    left: Left | None = None\n    word: str\n\nLeft.model_rebuild()\n"
    )
    old, new = "text: str) -> Saved:", "text: str, tree: Left | None = None) -> Saved:"
    imported = ("import Draft, Saved", "import Draft, Left, Saved")
    tools = (write_loom(tmp_path / "one") / "tools.py").read_text().replace(old, new).replace(*imported)
    loom = load(write_loom(tmp_path / "notes", {"schemas.py": schemas, "tools.py": tools}))
    tool = loom.agents["draft", "write"].tool("save-draft")
    assert tool is not None
    assert "#/$defs/" in str(tool.input_schema), "the schema refers to itself instead of being unrolled"
    assert (
        check_arguments(tool, {"text": "x", "tree": {"right": {"word": "w", "left": {"right": {"word": "w"}}}}}) == []
    )
    (issue,) = check_arguments(tool, {"text": "x", "tree": {"right": {"word": "w", "left": {"right": {"word": 1}}}}})
    assert issue.path == "/tree/right/left/right/word"
    deep: dict[str, object] = {"word": "w"}
    for _ in range(40):
        deep = {"word": "w", "left": {"right": deep}}
    (issue,) = check_arguments(tool, {"text": "x", "tree": {"right": deep}})
    assert issue.code == "depth"
