"""Tools: declared by a decorator, called with checked arguments, never raising."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from apps.looms.authoring.tools import declared_tool, tool
from apps.looms.loaded import LoadedLoom
from apps.looms.memory_results import MemoryResults
from apps.looms.tool_calls import ToolInput, ToolOutput, check_arguments, run_tool
from tests.unit.looms.loom_folders import TOOLS, load, write_loom

STATE = {"text": "t", "feedback": ["a", "b"]}


def use(loom: LoadedLoom, name: str, arguments: dict[str, Any], **changes: Any) -> ToolOutput:
    found = loom.agents["draft", "write"].tool(name)
    assert found is not None
    values: dict[str, Any] = {
        "run_id": "r",
        "call_id": "c",
        "tool_call_id": "t",
        "loom": loom,
        "stage": "draft",
        "tool": found,
        "arguments": arguments,
        "input": {"topic": "x"},
        "state": STATE,
        "results": MemoryResults(),
        "cancelled": lambda: False,
    }
    return run_tool(ToolInput(**{**values, **changes}))


@pytest.mark.rule("A2")
def test_schemas_come_from_the_annotations_and_the_description_from_the_docstring(tmp_path: Path) -> None:
    loom = load(write_loom(tmp_path / "notes"))
    read, save = loom.agents["draft", "write"].tools
    assert (read.id, read.description, read.timeout_seconds) == ("read_notes", "Read the notes.", 60)
    assert (save.id, save.timeout_seconds) == ("save-draft", 5)
    assert read.input_schema["properties"] == {"limit": {"default": 3, "title": "Limit", "type": "integer"}}
    assert read.input_schema["additionalProperties"] is False
    assert save.input_schema["required"] == ["text"]
    assert read.output_schema == {"items": {"type": "string"}, "type": "array"}
    assert save.output_schema["properties"]["ok"]["type"] == "boolean"


@pytest.mark.rule("A3", "E3")
@pytest.mark.parametrize(
    ("name", "arguments", "paths"),
    [
        ("read_notes", {}, []),
        ("read_notes", {"limit": 1}, []),
        ("read_notes", {"limit": "1"}, ["/limit"]),
        ("read_notes", {"limits": 1}, ["/limits"]),
        ("save-draft", {}, ["/text"]),
        ("save-draft", {"text": "\x00"}, ["/text"]),
        ("save-draft", [], [""]),
    ],
)
def test_arguments_are_checked_with_pointers(name: str, arguments: Any, paths: list[str], tmp_path: Path) -> None:
    found = load(write_loom(tmp_path / "notes")).agents["draft", "write"].tool(name)
    assert found is not None
    assert [issue.path for issue in check_arguments(found, arguments)] == paths


@pytest.mark.rule("A4")
def test_a_tool_reads_and_updates_state(tmp_path: Path) -> None:
    loom = load(write_loom(tmp_path / "notes"))
    read = use(loom, "read_notes", {"limit": 1})
    assert (read.output, read.error, read.state_changed) == (["a"], None, False)
    saved = use(loom, "save-draft", {"text": "new"})
    assert (saved.output, saved.state["text"], saved.state_changed) == ({"ok": True}, "new", True)


FAILING = {
    "a refusal": ('raise ToolError("No: sesame-open")', "No: [secret]"),
    "an exception": ("1 / 0", "ZeroDivisionError: division by zero"),
    "an exit": ("raise SystemExit(1)", "SystemExit: 1"),
    "a wrong State": ("call.update(text=5)", "/text"),
    "a secret": ("call.update(text=call.settings.token.get_secret_value())", "secret setting"),
    "a wrong output": ("return 5", "returned a int"),
    "a secret as output": ("return [call.settings.token.get_secret_value()]", "secret setting"),
    "NUL as output": ("return ['\\x00']", "NUL"),
    "no results": ("call.put_artifact(1)", "AttributeError"),
}


@pytest.mark.rule("A4", "K18")
@pytest.mark.parametrize("prefix", ["def", "async def"])
@pytest.mark.parametrize("kind", FAILING)
def test_a_tool_that_fails_says_why_and_changes_nothing(kind: str, prefix: str, tmp_path: Path) -> None:
    body, message = FAILING[kind]
    text = TOOLS.replace("return call.state.feedback[:limit]", f'call.update(text="half done")\n    {body}')
    text = text.replace("def read_notes", f"{prefix} read_notes")
    output = use(load(write_loom(tmp_path / "notes", {"tools.py": text})), "read_notes", {})
    assert message in (output.error or "")
    assert "sesame" not in (output.error or "")
    assert (output.output, output.state, output.state_changed) == (None, STATE, False)


@pytest.mark.rule("A12")
def test_a_tool_past_its_timeout_is_left_behind(tmp_path: Path) -> None:
    text = TOOLS.replace('timeout="5s"', 'timeout="100ms"').replace(
        "    if not text:", "    while not call.cancelled(): pass\n    if 0:"
    )
    started = time.monotonic()
    output = use(load(write_loom(tmp_path / "notes", {"tools.py": text})), "save-draft", {"text": "x"})
    assert time.monotonic() - started < 3
    assert output.error == "The Tool did not end within its timeout of 100ms."
    assert output.abandoned
    assert output.state == STATE


def test_parameters_may_be_called_like_anything(tmp_path: Path) -> None:
    text = TOOLS.replace("limit: int = 3", "copy: int, model_config: int = 1, json: int = 2, _x: int = 3")
    text = text.replace("[:limit]", "[:copy]")
    loom = load(write_loom(tmp_path / "notes", {"tools.py": text}))
    assert use(loom, "read_notes", {"copy": 1, "model_config": 2, "json": 3, "_x": 4}).output == ["a"]


@pytest.mark.parametrize(
    ("wrong", "because"),
    [
        ({"id": ""}, "Tool id ''"),
        ({"id": "a b"}, "Tool id 'a b'"),
        ({"id": "a" * 65}, "up to 63"),
        ({"timeout": 0}, "longer than 0 seconds"),
        ({"timeout": "0s"}, "longer than 0 seconds"),
        ({"timeout": -1}, "longer than 0 seconds"),
        ({"timeout": float("nan")}, "longer than 0 seconds"),
        ({"timeout": "367d"}, "at most 366 days"),
        ({"timeout": "soon"}, "Write a duration"),
    ],
)
def test_wrong_declarations_are_refused_at_once(wrong: dict[str, Any], because: str) -> None:
    def fine(call: Any) -> None: ...

    assert tool()(fine) is fine
    with pytest.raises(ValueError, match=because):
        tool(**wrong)(fine)


def test_only_declared_functions_are_tools() -> None:
    assert declared_tool(print) is None
