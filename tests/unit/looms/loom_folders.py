"""Loom folders for tests: a small sound one, and changes to it."""

from __future__ import annotations

import copy
import datetime as dt
import itertools
import os
import textwrap
from pathlib import Path
from typing import Any

from apps.looms.checking.check import Checked, check_folder
from apps.looms.loaded import LoadedLoom
from apps.looms.memory_results import MemoryResults
from apps.looms.segments import Failed, SegmentInput, SegmentKind, SegmentOutput, run_segment

YAML = """\
loom: notes
title: Notes
description: Takes notes.
input: schemas:Input
settings: schemas:Settings
entry: draft
stages:
  draft:
    state: schemas:Draft
    initialize: steps:start
    entry: collect
    steps:
      collect:
        code: steps:collect
        timeout: 30s
        retry: {attempts: 3, backoff: 1s, errors: [ConnectionError]}
        on_interrupt: rerun
        max_visits: 5
        on: {ready: write, empty: end}
      write:
        agent: writer
        model: writing
        timeout: 2h
        output: schemas:Written
        tools: [tools:read_notes, tools:save_draft]
        end_tool: tools:save_draft
        skills: [style]
        on: {written: review}
      review:
        code: steps:review
        on: {approved: end, revise: write}
    on: {empty: end, approved: publish}
  publish:
    entry: file
    steps:
      file:
        code: steps:publish
        on: {done: end}
    on: {done: end}
"""
SCHEMAS = """\
from typing import Literal
from pydantic import BaseModel, SecretStr

class Input(BaseModel):
    topic: str
    count: int = 1

class Settings(BaseModel):
    token: SecretStr = SecretStr("sesame-open")

class Draft(BaseModel):
    text: str = ""
    feedback: list[str] = []

class Written(BaseModel):
    outcome: Literal["written"]
    words: int = 0

class Saved(BaseModel):
    ok: bool
"""
STEPS = """\
from loomsvc.authoring import Answer, CodeStep, Confirmation, Question, StageContext, Wait
from .schemas import Draft, Input

def start(context: StageContext[Input]) -> Draft:
    return Draft(text=context.input.topic)

def collect(step: CodeStep[Draft]) -> str:
    return "ready" if step.input.count else "empty"

def review(step: CodeStep[Draft]) -> str | Wait:
    step.update(feedback=[*step.state.feedback, f"by {step.previous.words} words"])
    return step.confirm(step.state.text, then=reviewed)

def reviewed(step: CodeStep[Draft], answer: Confirmation) -> str:
    if answer.is_confirmed:
        step.put_artifact({"text": step.state.text, "feedback": step.state.feedback})
        return "approved"
    step.update(feedback=[*step.state.feedback, answer.feedback or ""])
    return "revise"

def publish(step: CodeStep[None]) -> str:
    artifact = step.artifacts.get("notes", "draft")
    step.append_record({"text": artifact.data["text"]}, record_id=f"notes-{step.run_id}")
    return "done"
"""
TOOLS = """\
from loomsvc.authoring import ToolCall, ToolError, tool
from .schemas import Draft, Saved

@tool
def read_notes(call: ToolCall[Draft], limit: int = 3) -> list[str]:
    \"\"\"Read the notes.\"\"\"
    return call.state.feedback[:limit]

@tool(id="save-draft", timeout="5s")
def save_draft(call: ToolCall[Draft], text: str) -> Saved:
    \"\"\"Save the draft.\"\"\"
    if not text:
        raise ToolError("The text is empty.")
    call.update(text=text)
    return Saved(ok=True)
"""
WRITER = "---\nname: Writer\ndescription: Writes.\n---\nWrite it.\n"
STYLE = "---\nname: Style\ndescription: How to write.\n---\nBe brief.\n"

SOUND: dict[str, str] = {
    "loom.yaml": YAML,
    "schemas.py": SCHEMAS,
    "steps.py": STEPS,
    "tools.py": TOOLS,
    "agents/writer.md": WRITER,
    "skills/style/SKILL.md": STYLE,
    "skills/style/words.txt": "good words",
}


def write_loom(folder: Path, changes: dict[str, str | bytes | None] | None = None, **replaced: tuple[str, str]) -> Path:
    """The sound Loom in ``folder``; ``changes`` replace whole files (None: no such file), ``replaced`` one text
    inside ``loom_yaml``, ``schemas``, ``steps`` or ``tools``."""
    files: dict[str, Any] = {**SOUND, **(changes or {})}
    for name, (old, new) in replaced.items():
        file = {"loom_yaml": "loom.yaml"}.get(name, f"{name}.py")
        assert old in files[file], f"{old!r} is not in {file}"
        files[file] = files[file].replace(old, new)
    for path, content in files.items():
        if content is not None:
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            data = content if isinstance(content, bytes) else textwrap.dedent(content).encode()
            (folder / path).write_bytes(data)
    return folder


def check(folder: Path, environ: dict[str, str] | None = None) -> Checked:
    return check_folder(
        folder, releases_dir=folder.parent / "releases", environ=dict(os.environ) if environ is None else environ
    )


def load(folder: Path, environ: dict[str, str] | None = None) -> LoadedLoom:
    checked = check(folder, environ)
    assert checked.loom is not None, checked.diagnostics
    return checked.loom


_numbers = itertools.count(1)
SMALL_YAML = """\
loom: small
title: Small
description: One Step.
{settings}entry: main
stages:
  main:
    state: steps:State
    initialize: steps:start
    entry: run
    steps:
      run:
        code: steps:run
        {extra}
        on: {{done: end}}
    on: {{done: end}}
"""
SMALL_HEAD = """\
import asyncio, datetime as dt, enum, os, sys, threading, time
from typing import Any
from pydantic import BaseModel, SecretStr
from loomsvc.authoring import *

class Settings(BaseModel):
    token: SecretStr = SecretStr("sesame-open")
    pin: SecretStr = SecretStr("1234")

class State(BaseModel):
    text: str = ""
    items: list[Any] = []
    when: dt.datetime | None = None

def start(context):
    return State()

"""


#: The State that :func:`segment` begins with.
BEFORE: dict[str, Any] = {"text": "before", "items": [], "when": None}
#: A continuation for Code that waits.
CONTINUE = "\ndef go_on(step, *answer):\n    return 'done'\n"


def small_loom(tmp_path: Path, code: str, *, extra: str = "max_visits: 1000") -> LoadedLoom:
    """A Loom of one Step ``run``, whose module is ``code`` after some imports, a State and an initializer."""
    folder = tmp_path / f"small{next(_numbers)}"
    folder.mkdir()
    (folder / "loom.yaml").write_text(SMALL_YAML.format(extra=extra, settings="settings: steps:Settings\n"))
    (folder / "steps.py").write_text(SMALL_HEAD + textwrap.dedent(code))
    return load(folder)


def segment(loom: LoadedLoom, **changes: Any) -> SegmentInput:
    """A segment of that Step, with ``changes``."""
    ids = itertools.count(1)
    values: dict[str, Any] = {
        "run_id": "r1",
        "loom": loom,
        "kind": SegmentKind.STEP,
        "stage": "main",
        "step": "run",
        "visit": 1,
        "attempt": 1,
        "idempotency_key": "key",
        "input": {},
        "previous": None,
        "previous_step": None,
        "state": copy.deepcopy(BEFORE),
        "continuation": None,
        "answer": None,
        "now": dt.datetime(2026, 1, 1, tzinfo=dt.UTC),
        "seed": "seed",
        "results": MemoryResults(),
        "cancelled": lambda: False,
        "new_id": lambda: f"id-{next(ids)}",
    }
    return SegmentInput(**{**values, **changes})


def run_code(tmp_path: Path, code: str, *, extra: str = "max_visits: 1000", **changes: Any) -> SegmentOutput:
    """Run the Step of :func:`small_loom`."""
    return run_segment(segment(small_loom(tmp_path, code, extra=extra), **changes))


def failure(output: SegmentOutput) -> Failed:
    """Why a segment that began with :data:`BEFORE` failed; nothing of what it did is kept."""
    assert isinstance(output.ending, Failed), output.ending
    assert output.staged == ()
    assert output.state == BEFORE
    assert output.state_changed is False
    return output.ending
