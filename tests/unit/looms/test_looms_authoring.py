"""The authoring names are a promise."""

from __future__ import annotations

import dataclasses

import pytest

import loomsvc.authoring as authoring
from apps.looms.authoring.staging import Artifact, Record
from apps.looms.authoring.steps import Artifacts, Records

STEP = {
    "artifacts", "attempt", "cancelled", "idempotency_key", "input", "log", "loom_name", "previous", "records",
    "run_id", "settings", "stage_name", "state", "step_name", "update", "visit",
}  # fmt: skip
RESULTS = {
    "append_record", "ask", "confirm", "create_artifact", "now", "put_artifact", "random", "remove_artifact",
    "replace_artifact", "sleep_until",
}  # fmt: skip


def members(kind: type) -> set[str]:
    """Public class members, and attributes that its ``__init__`` sets."""
    import ast
    import inspect
    import textwrap

    found = {name for name in dir(kind) if not name.startswith("_")}
    for base in kind.__mro__[:-1]:
        if "__init__" in vars(base):
            tree = ast.parse(textwrap.dedent(inspect.getsource(base.__init__)))
            attributes = (node for node in ast.walk(tree) if isinstance(node, ast.Attribute))
            stores = (node.attr for node in attributes if isinstance(node.ctx, ast.Store))
            found |= {name for name in stores if not name.startswith("_")}
    return found


def fields(kind: type) -> list[str]:
    return [field.name for field in dataclasses.fields(kind)]


def test_the_public_names_are_frozen() -> None:
    assert set(authoring.__all__) == {
        "Answer", "ArtifactConflict", "CodeStep", "Confirmation", "Option", "Question", "StageContext", "ToolCall",
        "ToolError", "Wait", "tool",
    }  # fmt: skip
    assert all(hasattr(authoring, name) for name in authoring.__all__)


def test_the_members_are_frozen() -> None:
    assert members(authoring.CodeStep) == STEP | RESULTS
    assert members(authoring.ToolCall) == {
        "run_id", "call_id", "tool_call_id", "input", "settings", "state", "update", "artifacts", "records", "log",
        "cancelled",
    }  # fmt: skip
    assert fields(authoring.StageContext) == ["run_id", "loom_name", "stage_name", "input", "settings"]
    assert fields(authoring.Question) == ["id", "question", "is_skippable", "description", "options"]
    assert fields(authoring.Option) == ["id", "label", "description"]
    assert fields(authoring.Answer) == ["question_id", "is_skipped", "answer"]
    assert fields(authoring.Confirmation) == ["is_confirmed", "feedback"]
    assert fields(Artifact) == ["artifact_id", "revision", "data"]
    assert fields(Record) == ["record_id", "data"]
    assert members(Artifacts) == {"get", "get_by_id"}
    assert members(Records) == {"get", "latest"}


def test_the_surface_needs_no_django() -> None:
    import subprocess
    import sys

    code = "import sys, loomsvc.authoring, loomsvc.testing, apps.looms.segments; sys.exit('django' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_input_and_settings_may_be_typed_or_left_open() -> None:
    for kind in (authoring.CodeStep, authoring.ToolCall):
        assert kind[int] and kind[int, str] and kind[int, str, float]
        with pytest.raises(TypeError):
            kind[int, str, float, bool]
    assert authoring.StageContext[int] and authoring.StageContext[int, str]
