"""Every kind of error in loom.yaml: line, message and what to do about it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.looms.checking.shape_problems import _PURPOSES
from apps.looms.checking.shapes import AgentShape, CodeShape, LoomShape, RetryShape, StageShape
from apps.looms.checking.yaml_tree import read_yaml
from apps.looms.diagnostics import Severity, did_you_mean
from tests.unit.looms.loom_folders import YAML, check, write_loom

# Each row: a text of loom.yaml, what takes its place, where the problem then stands, words of message and suggestion.
GRAPH_ERRORS = {
    "an unknown key": (
        "title: Notes",
        "title: Notes\nexclusiv: true",
        "exclusiv",
        "no key of a Loom",
        "`exclusive`",
    ),
    "an unknown key of a Stage": (
        "    entry: collect",
        "    entri: collect",
        "entri",
        "no key of a Stage",
        "`entry`",
    ),
    "an unknown key of a Step": ("max_visits: 5", "max_visit: 5", "max_visit:", "no key of a Step", "`max_visits`"),
    "an unknown key of retry": ("attempts: 3", "attempt: 3", "attempt:", "no key of `retry`", "`attempts`"),
    "a key twice": (
        "title: Notes",
        "title: Notes\ntitle: Again",
        "Again",
        "stands here twice (first in line 2)",
        "Keep one",
    ),
    "a nested key twice": (
        "{ready: write,",
        "{ready: write, ready: end,",
        "ready: end",
        "`ready` stands here twice",
        "Keep one",
    ),
    "a key that is no text": (
        "{done: end}\n    on: {done: end}",
        "{1: end}\n    on: {done: end}",
        "{1: end}",
        "key 1 is no text",
        "quotes",
    ),
    "a missing key": ("description: Takes notes.\n", "", "loom: notes", "lacks the key `description`", "Add"),
    "a Step of no kind": (
        "        code: steps:review\n",
        "",
        "review:",
        "neither `code` nor `agent`",
        "code: module:function",
    ),
    "a Step of both kinds": (
        "        code: steps:review\n",
        "        code: steps:review\n        agent: writer\n",
        "agent: writer\n        on: {appr",
        "either `code` or `agent`",
        "two Steps",
    ),
    "a bad Loom name": ("loom: notes", "loom: My Notes", "loom:", "My Notes", "lower-case"),
    "a Step called end": ("      file:", "      end:", "      end:", "`end` cannot be used", "another name"),
    "a number for a text": ("title: Notes", "title: 5", "title:", "must be a text", "quotes"),
    "a bare number as timeout": ("timeout: 30s", "timeout: 30", "timeout: 30", "must be a text", "30s"),
    "a wrong duration": ("timeout: 30s", "timeout: half an hour", "half", "half an hour", "1h30m"),
    "no time at all": ("timeout: 30s", "timeout: 0s", "timeout: 0s", "cannot be used", "longer than 0s"),
    "no attempts": ("attempts: 3", "attempts: 0", "attempts: 0", "attempts: 0` cannot be used", "at least 1"),
    "too many attempts": ("attempts: 3", "attempts: 300", "attempts: 300", "300` cannot be used", "at most 100"),
    "no title": ("title: Notes\n", "", "loom: notes", "The Loom lacks the key `title`.", "what people call it"),
    "a title without a text": ("title: Notes", "title:", "title:", "`title` has no value", "what people call it"),
    "a Step without routes": ("        on: {done: end}", "", "      file:", "steps.file` lacks the key `on`", "done"),
    "no exception to retry": ("[ConnectionError]", "[]", "retry:", "retry.errors` is empty", "at least one"),
    "attempts in words": ("attempts: 3", "attempts: three", "attempts: three", "whole number", "whole number"),
    "a wrong on_interrupt": (
        "rerun",
        "again",
        "on_interrupt",
        "`stages.draft.steps.collect.on_interrupt: again`",
        "fail or rerun",
    ),
    "no routes": (
        "on: {approved: end, revise: write}",
        "on: {}",
        "on: {}",
        "`stages.draft.steps.review.on` is empty",
        "one",
    ),
    "routes as a list": (
        "on: {approved: end, revise: write}",
        "on: [approved]",
        "on: [approved]",
        "must be a mapping",
        "",
    ),
    "a blank outcome": (
        "{ready: write, empty: end}",
        '{" ": write, empty: end}',
        '" "',
        "cannot be used",
        "printable",
    ),
    "a wrong reference": (
        "code: steps:review",
        "code: steps.review",
        "steps.review",
        "steps.review",
        "module:name",
    ),
    "an unknown entry": ("entry: draft", "entry: draught", "draught", "no Stage", "`draft`"),
    "an unknown entry of a Stage": ("entry: file", "entry: fil", "fil", "no Step of Stage `publish`", "`file`"),
    "a route to nowhere": ("revise: write", "revise: wirte", "wirte", "`wirte`, which is no Step", "`write`"),
    "a Stage route to nowhere": (
        "approved: publish}",
        "approved: publich}",
        "publich",
        "which is no Stage",
        "`publish`",
    ),
    "a Stage that leads to itself": (
        "{empty: end, approved: publish}",
        "{empty: draft, approved: publish}",
        "empty: draft",
        "to itself",
        "between its Steps",
    ),
    "an unreachable Step": (
        "{ready: write, empty: end}",
        "{ready: end, empty: end}",
        "      write:",
        "`write` cannot be reached",
        "Route an outcome",
    ),
    "an unreachable Stage": (
        "{empty: end, approved: publish}",
        "{empty: end, approved: end}",
        "  publish:",
        "`publish` cannot be reached",
        "Route",
    ),
    "a missing Stage route": (
        "{empty: end, approved: publish}",
        "{approved: publish}",
        "empty: end",
        "no route for `empty`",
        "`empty: end`",
    ),
    "State without an initializer": (
        "    initialize: steps:start\n",
        "",
        "state:",
        "`state` without `initialize`",
        "Add `initialize:`",
    ),
    "a missing module": ("code: steps:review", "code: stepz:review", "stepz", "no stepz.py", "`steps`"),
    "a missing function": ("code: steps:review", "code: steps:reviw", "reviw", "defines no `reviw`", "`review`"),
    "a model that is none": (
        "state: schemas:Draft",
        "state: steps:start",
        "state:",
        "no pydantic model",
        "BaseModel",
    ),
    "a function that is none": (
        "code: steps:review",
        "code: schemas:Draft",
        "code: schemas:Draft",
        "no function",
        "def",
    ),
    "a function of two arguments": (
        "code: steps:review",
        "code: steps:reviewed",
        "steps:reviewed",
        "with one argument",
        "one parameter",
    ),
    "a Tool that is none": ("tools:read_notes", "steps:review", "tools:", "no Tool", "@tool"),
    "an end Tool that is none": (
        "end_tool: tools:save_draft",
        "end_tool: tools:save",
        "end_tool",
        "none of its `tools`",
        "save_draft",
    ),
    "a missing agent": ("agent: writer", "agent: writr", "writr", "no agents/writr.md", "`writer`"),
    "a missing Skill": ("skills: [style]", "skills: [stile]", "stile", "no skills/stile/SKILL.md", "`style`"),
    "an output without outcome": (
        "output: schemas:Written",
        "output: schemas:Saved",
        "Saved",
        "no `outcome`",
        "Literal",
    ),
    "an agent's outcome without route": (
        "{written: review}",
        "{wrote: review}",
        "wrote",
        "`wrote`, which `schemas:Written` never has",
        "`written`",
    ),
    "an unknown exception": (
        "[ConnectionError]",
        "[ConectionError]",
        "ConectionError",
        "no exception class",
        "`ConnectionError`",
    ),
    "a class that is no exception": (
        "[ConnectionError]",
        "[pathlib.Path]",
        "pathlib",
        "no exception class",
        "module.Class",
    ),
    "a wrong requirement": (
        "entry: draft\n",
        "entry: draft\nrequires: ['>=2']\n",
        "requires",
        "no requirement",
        "acme-shared>=2",
    ),
    "a package that is not installed": (
        "entry: draft\n",
        "entry: draft\nrequires: [no-such-package-x]\n",
        "requires",
        "is not installed",
        "Install",
    ),
    "a version that is not installed": (
        "entry: draft\n",
        "entry: draft\nrequires: [pydantic>=99]\n",
        "requires",
        "is not met",
        "Install",
    ),
    "no YAML": ("title: Notes", "title: [Notes", "description", "no valid YAML", ""),
    "a tab": ("entry: draft\n", "entry: draft\n\tx: 1\n", "\tx", "no valid YAML", "spaces"),
}


@pytest.mark.parametrize("kind", GRAPH_ERRORS)
def test_what_is_wrong_in_loom_yaml_is_reported_with_line_and_cure(kind: str, tmp_path: Path) -> None:
    old, new, at, message, suggestion = GRAPH_ERRORS[kind]
    assert old in YAML
    text = YAML.replace(old, new, 1)
    checked = check(write_loom(tmp_path / "notes", {"loom.yaml": text}))
    assert checked.loom is None
    first_at = text[: text.index(at)].count("\n") + 1
    found = [d for d in checked.diagnostics if message in d.message]
    assert found, checked.diagnostics
    assert found[0].file == "loom.yaml"
    assert found[0].line == first_at
    assert found[0].severity is Severity.ERROR
    assert suggestion in (found[0].suggestion or "")


def test_every_problem_is_reported_at_once(tmp_path: Path) -> None:
    text = YAML.replace("revise: write", "revise: wirte").replace("steps:publish", "steps:publsh")
    text = text.replace("agent: writer", "agent: nobody")
    messages = " ".join(d.message for d in check(write_loom(tmp_path / "notes", {"loom.yaml": text})).diagnostics)
    assert "wirte" in messages
    assert "publsh" in messages
    assert "nobody" in messages


def test_a_long_list_of_names_is_cut() -> None:
    assert did_you_mean("x", [f"name{n}" for n in range(99)]).endswith("name10, name11, ….")
    assert did_you_mean("x", []) == "There is none."


def test_every_required_key_is_explained_when_it_is_missing() -> None:
    shapes = (LoomShape, StageShape, CodeShape, AgentShape, RetryShape)
    required = {name for shape in shapes for name, field in shape.model_fields.items() if field.is_required()}
    # A Step without `code` or `agent` is told otherwise.
    assert required - {"code", "agent"} == set(_PURPOSES)


@given(st.text(max_size=40) | st.text("-:{}[]&*#'\"\\n \tab!|>%@`?,", max_size=40))
def test_any_text_is_read_or_refused_as_yaml(text: str) -> None:
    document, problems = read_yaml(text, "x.yaml")
    assert document is not None or problems


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_a_loom_yaml_with_any_line_changed_is_checked_without_raising(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    lines = YAML.splitlines()
    index = data.draw(st.integers(0, len(lines) - 1))
    change = data.draw(st.sampled_from(["drop", "double", "indent", "dedent", "cut", "number", "null", "list"]))
    line = lines[index]
    key = line.split(":")[0]
    lines[index : index + 1] = {
        "drop": [],
        "double": [line, line],
        "indent": ["  " + line],
        "dedent": [line.removeprefix("  ")],
        "cut": [line[: len(line) // 2]],
        "number": [f"{key}: 5"],
        "null": [f"{key}:"],
        "list": [f"{key}: [x]"],
    }[change]
    folder = write_loom(tmp_path_factory.mktemp("looms") / "notes", {"loom.yaml": "\n".join(lines) + "\n"})
    checked = check(folder)
    assert checked.loom is not None or checked.diagnostics
    assert all(d.message and d.file for d in checked.diagnostics)


def test_a_stage_route_that_nothing_takes_is_a_warning_only(tmp_path: Path) -> None:
    checked = check(write_loom(tmp_path / "notes", loom_yaml=("{empty: end,", "{emty: end, empty: end,")))
    assert checked.loom is not None
    (warning,) = checked.diagnostics
    assert warning.severity is Severity.WARNING
    assert warning.suggestion == "Did you mean `empty`?"
