"""Pictures of a graph."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from apps.looms.domain.graph_json import graph_json
from apps.looms.pictures import Mark, StepMark, mermaid, tree
from tests.unit.looms.loom_folders import YAML, load, write_loom


def test_mermaid_has_every_stage_step_and_route(tmp_path: Path) -> None:
    text = mermaid(load(write_loom(tmp_path / "notes")).graph)
    for line in (
        "flowchart TD",
        'subgraph stage_draft["draft"]',
        'draft__collect["collect"]',
        'draft__write("write")',
        "start --> draft__collect",
        'draft__collect -- "ready" --> draft__write',
        'draft__collect -- "empty" --> finish',
        'draft__review -- "approved" --> publish__file',
        'publish__file -- "done" --> finish',
    ):
        assert line in text


def test_outcomes_cannot_break_out_of_the_picture(tmp_path: Path) -> None:
    outcome = '"]; <b>|`&#[red]'
    quoted = "'" + outcome + "'"
    text = YAML.replace("{done: end}", "{" + quoted + ": end}")
    graph = load(write_loom(tmp_path / "notes", {"loom.yaml": text})).graph
    (line,) = [line for line in mermaid(graph).splitlines() if "publish__file --" in line]
    assert line == '  publish__file -- "#quot;]; #lt;b#gt;#124;#96;#amp;#35;[red]" --> finish'
    console = Console(width=200, record=True)
    console.print(tree(graph))
    assert outcome in console.export_text()


MARKS = {
    ("draft", "collect"): StepMark(Mark.VISITED, 1),
    ("draft", "write"): StepMark(Mark.CURRENT, 3, "wai[bold]ting\x1b"),
    ("draft", "review"): StepMark(Mark.FAILED, 2, "failed"),
}


def test_marks_light_steps_in_mermaid_by_label_and_class(tmp_path: Path) -> None:
    graph = load(write_loom(tmp_path / "notes")).graph
    lines = [line.strip() for line in mermaid(graph, MARKS).splitlines()]
    for line in (
        'draft__collect["collect<br>✓ 1 visit"]',
        'draft__write("write<br>▶ wai[bold]ting\\x1b, 3 visits")',
        'draft__review["review<br>✗ failed, 2 visits"]',
        'publish__file["file"]',
        "class draft__collect visited",
        "class draft__write current",
        "class draft__review failed",
    ):
        assert line in lines
    assert len([line for line in lines if line.startswith("classDef")]) == 3
    assert "class" not in mermaid(graph), "a graph without a Run is drawn as ever"


def test_marks_light_steps_in_the_tree(tmp_path: Path) -> None:
    console = Console(width=200, record=True)
    console.print(tree(load(write_loom(tmp_path / "notes")).graph, MARKS))
    lines = [line.strip("│├└─ ") for line in console.export_text().splitlines()]
    assert "code collect (steps:collect) (entry)  ✓ 1 visit" in lines
    assert "agent write (writer)  ▶ wai[bold]ting\\x1b, 3 visits" in lines
    assert "code review (steps:review)  ✗ failed, 2 visits" in lines
    assert "code file (steps:publish) (entry)" in lines


def test_a_graph_as_json_is_complete(tmp_path: Path) -> None:
    body = graph_json(load(write_loom(tmp_path / "notes")).graph)
    assert [stage["name"] for stage in body["stages"]] == ["draft", "publish"]
    collect, write, _ = body["stages"][0]["steps"]
    assert collect == {
        "name": "collect",
        "kind": "code",
        "on": {"ready": "write", "empty": "end"},
        "maxVisits": 5,
        "timeout": "30s",
        "retry": {"attempts": 3, "backoff": "1s", "errors": ["ConnectionError"]},
        "onInterrupt": "rerun",
    }
    assert (write["kind"], write["agent"], write["model"], write["timeout"]) == ("agent", "writer", "writing", "2h")


def test_the_tree_says_what_a_step_declares_beside_its_routes(tmp_path: Path) -> None:
    console = Console(width=200, record=True)
    console.print(
        tree(load(write_loom(tmp_path / "notes", loom_yaml=("entry: draft", "entry: draft\nexclusive: true"))).graph)
    )
    lines = [line.strip("│├└─ ") for line in console.export_text().splitlines()]
    assert lines[0] == "notes Notes (exclusive)"
    collect = lines.index("code collect (steps:collect) (entry)")
    assert lines[collect + 1] == (
        "timeout 30s; retry 3 attempts on ConnectionError, backoff 1s; on_interrupt rerun; max_visits 5"
    )
    assert lines[collect + 2] == "ready → write"
    assert lines[lines.index("agent write (writer)") + 1] == "model writing; timeout 2h"
    assert lines[lines.index("code review (steps:review)") + 1] == "approved → end"
