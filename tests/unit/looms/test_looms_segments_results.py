"""What Code stages of Artifacts and Records, and what it reads of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from apps.looms.memory_results import MemoryResults
from apps.looms.segments import (
    AppendRecord,
    ArtifactRead,
    ArtifactValue,
    CreateArtifact,
    Outcome,
    RecordRead,
    RecordValue,
    RemoveArtifact,
    ReplaceArtifact,
)
from tests.unit.looms.loom_folders import failure, run_code


class Reads(MemoryResults):
    def __init__(self) -> None:
        super().__init__()
        self.artifacts["a"] = ArtifactValue("a", "small", "main", 3, {"n": 1})
        self.artifacts["b"] = ArtifactValue("b", "other", "main", 1, {"n": 2})
        self.records["r"] = RecordValue("r", "small", "main", [1])


@pytest.mark.rule("S3", "S4")
@pytest.mark.parametrize(
    ("body", "staged"),
    [
        ("step.put_artifact(1)", (ReplaceArtifact("a", 3, 1),)),
        ("step.put_artifact(1); step.put_artifact(2)", (ReplaceArtifact("a", 3, 2),)),
        ("step.artifacts.get('small', 'main'); step.put_artifact(1)", (ReplaceArtifact("a", 3, 1),)),
        (
            "step.remove_artifact('a', expected_revision=3); step.put_artifact(1)",
            (RemoveArtifact("a", 3), CreateArtifact("id-1", 1)),
        ),
        ("step.put_artifact(1); step.remove_artifact('a', expected_revision=4)", (RemoveArtifact("a", 3),)),
        ("step.replace_artifact('b', expected_revision=1, data=1)", (ReplaceArtifact("b", 1, 1),)),
        ("step.create_artifact(1, artifact_id='x'); step.put_artifact(2)", (CreateArtifact("x", 2),)),
        ("step.create_artifact(1, artifact_id='x'); step.remove_artifact('x', expected_revision=1)", ()),
        ("step.append_record(1, record_id='q'); step.append_record(1, record_id='q')", (AppendRecord("q", 1),)),
        ("step.append_record(1.0, record_id='q'); step.append_record(1, record_id='q')", (AppendRecord("q", 1.0),)),
        (
            "step.append_record(State(text='m'), record_id='q')",
            (AppendRecord("q", {"text": "m", "items": [], "when": None}),),
        ),
        ("d = {'n': 1}; step.append_record(d, record_id='q'); d['n'] = 2", (AppendRecord("q", {"n": 1}),)),
        (
            "step.artifacts.get_by_id('a').data['n'] = 9; step.put_artifact(step.artifacts.get_by_id('a').data)",
            (ReplaceArtifact("a", 3, {"n": 1}),),
        ),
    ],
)
def test_what_is_staged_is_drawn_together(body: str, staged: tuple[object, ...], tmp_path: Path) -> None:
    output = run_code(tmp_path, f"def run(step):\n    {body}\n    return 'done'", results=Reads())
    assert output.ending == Outcome("done")
    assert output.staged == staged


@pytest.mark.rule("S3", "S4")
@pytest.mark.parametrize(
    ("body", "name"),
    [
        ("step.create_artifact(1); step.create_artifact(2)", "ArtifactConflict"),
        ("step.put_artifact(1); step.replace_artifact('a', expected_revision=3, data=2)", "ArtifactConflict"),
        (
            "step.remove_artifact('a', expected_revision=3); step.remove_artifact('a', expected_revision=3)",
            "ArtifactConflict",
        ),
        ("step.append_record(1, record_id='q'); step.append_record(2, record_id='q')", "RecordConflict"),
    ],
)
def test_what_contradicts_itself_within_a_step_fails_it(body: str, name: str, tmp_path: Path) -> None:
    found = failure(run_code(tmp_path, f"def run(step):\n    {body}\n    return 'done'", results=Reads()))
    assert found.code == "STEP_FAILED"
    assert any(one.endswith(name) for one in found.error_names)


@pytest.mark.rule("M1")
def test_a_step_sees_what_it_staged_and_its_reads_are_noted_once(tmp_path: Path) -> None:
    output = run_code(
        tmp_path,
        """
        def run(step):
            seen = [step.artifacts.get("small", "main").revision, step.artifacts.get_by_id("b").data]
            step.put_artifact("mine")
            step.append_record("new", record_id="q")
            seen += [step.artifacts.get("small", "main").data, step.artifacts.get_by_id("a").revision]
            seen += [step.records.get("r").data, step.records.get("q").data, step.records.get("none")]
            seen += [step.records.latest("small", "main").record_id, step.records.latest("other", "main")]
            seen += [step.artifacts.get("none", "main"), step.artifacts.get_by_id("none")]
            step.update(items=seen)
            return "done"
        """,
        results=Reads(),
    )
    assert output.ending == Outcome("done")
    assert output.state["items"] == [3, {"n": 2}, "mine", 4, [1], "new", None, "q", None, None, None]
    assert output.reads == (
        ArtifactRead("a", 3, "small", "main"),
        ArtifactRead("b", 1, "other", "main"),
        RecordRead("r"),
    )
