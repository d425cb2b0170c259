"""Every kind of error in a Loom folder: file, line, message and what to do about it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.looms.checking.shape_problems import _PURPOSES
from apps.looms.checking.shapes import AgentShape, CodeShape, LoomShape, RetryShape, StageShape
from apps.looms.checking.yaml_tree import read_yaml
from apps.looms.diagnostics import Severity, did_you_mean
from tests.unit.looms.loom_folders import SCHEMAS, STEPS, STYLE, TOOLS, WRITER, YAML, check, load, write_loom


def line_of(text: str, part: str) -> int:
    return next(number for number, line in enumerate(text.splitlines(), start=1) if part in line)


def test_the_sound_loom_has_nothing_to_report_and_loads(tmp_path: Path) -> None:
    checked = check(write_loom(tmp_path / "notes"))
    assert checked.diagnostics == ()
    assert checked.loom is not None
    assert checked.loom.graph.step("draft", "collect").timeout_seconds == 30
    assert checked.loom.graph.step("draft", "collect").retry.errors == ("ConnectionError",)
    task = checked.loom.agents["draft", "write"]
    assert [tool.id for tool in task.tools] == ["read_notes", "save-draft"]
    assert task.end_tool == "save-draft"
    assert [(asset.id, asset.size) for asset in task.skills[0].assets] == [("style/words.txt", 10)]


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


FILE_ERRORS = {
    "a syntax error": (
        {"steps.py": STEPS + "def broken(:\n"},
        "steps.py",
        len(STEPS.splitlines()) + 1,
        "no valid Python",
    ),
    "an import error": ({"schemas.py": "import no_such_module_x\n" + SCHEMAS}, "schemas.py", 1, "ModuleNotFoundError"),
    "an exit at import": ({"steps.py": "import sys\nsys.exit(3)\n"}, "steps.py", 2, "SystemExit"),
    "an interrupt at import": ({"steps.py": "raise KeyboardInterrupt\n"}, "steps.py", 1, "KeyboardInterrupt"),
    "an exception at import": (
        {"tools.py": TOOLS + "1 / 0\n"},
        "tools.py",
        len(TOOLS.splitlines()) + 1,
        "ZeroDivisionError",
    ),
    "NUL bytes": ({"steps.py": b"x = 1\0"}, "steps.py", None, "no valid Python"),
    "bytes that are no text": ({"steps.py": b'x = "\xff"\n'}, "steps.py", 1, "no valid Python"),
    "an untyped Tool": ({"tools.py": TOOLS.replace("limit: int = 3", "limit=3")}, "tools.py", 4, "no usable types"),
    "a Tool that says not what it returns": (
        {"tools.py": TOOLS.replace(" -> Saved", "")},
        "tools.py",
        9,
        "no usable types",
    ),
    "a Tool of any arguments": (
        {"tools.py": TOOLS.replace("limit: int = 3", "*limits: int")},
        "tools.py",
        4,
        "no usable types",
    ),
    "a Tool of unknown types": (
        {"tools.py": TOOLS.replace("limit: int", "limit: 'Nothing'")},
        "tools.py",
        4,
        "no usable types",
    ),
    "a Tool of types without a schema": (
        {"tools.py": TOOLS.replace("limit: int = 3", "limit: type(print)")},
        "tools.py",
        4,
        "no usable types",
    ),
    "no front matter": ({"agents/writer.md": "Write.\n"}, "agents/writer.md", 1, "front matter is missing"),
    "an open front matter": ({"agents/writer.md": "---\nname: x\n"}, "agents/writer.md", 1, "does not end"),
    "an unknown key in it": (
        {"agents/writer.md": WRITER.replace("name:", "nme:")},
        "agents/writer.md",
        2,
        "`nme` is no key",
    ),
    "no description": (
        {"skills/style/SKILL.md": STYLE.replace("description: How to write.\n", "")},
        "skills/style/SKILL.md",
        2,
        "lacks `description`",
    ),
    "no instructions": (
        {"agents/writer.md": "---\nname: W\ndescription: d\n---\n"},
        "agents/writer.md",
        1,
        "no instructions",
    ),
    "an agent in another encoding": ({"agents/writer.md": b"---\nname: \xff"}, "agents/writer.md", None, "no UTF-8"),
    "a loom.yaml in another encoding": ({"loom.yaml": b"\xff\xfe"}, "loom.yaml", None, "no UTF-8"),
    "no loom.yaml": ({"loom.yaml": None, "loom.yml": "x"}, "loom.yaml", None, "no loom.yaml"),
    "aliases that multiply": (
        {
            "loom.yaml": "a: &a [1,1,1,1,1,1,1,1,1]\n"
            + "".join(f"{c}: &{c} [{','.join(['*' + chr(ord(c) - 1)] * 9)}]\n" for c in "bcdefgh")
        },
        "loom.yaml",
        1,
        "holds more",
    ),
    "an alias of itself": ({"loom.yaml": "a: &a [*a]\n"}, "loom.yaml", 1, "nests deeper"),
    "deep nesting": ({"loom.yaml": "[" * 5000}, "loom.yaml", 1, ""),
    "a list": ({"loom.yaml": "- a\n"}, "loom.yaml", 1, "must be a mapping"),
    "nothing": ({"loom.yaml": ""}, "loom.yaml", 1, "lacks the key `loom`"),
    "a tag": ({"loom.yaml": "loom: !!python/name:os.system x\n"}, "loom.yaml", 1, "no valid YAML"),
}


IMPORTS = {
    "from .schemas import Draf": "Did you mean `Draft`?",
    "from .schemas import Nothing": "There is: Input, Settings, Draft, Written, Saved.",
    "from .schema import Draft": "Did you mean `schemas`?",
    "from schemas import Draft": "Files of a Loom import each other with a dot: `from .schemas import …`.",
    "from decimal import Decimol": "Did you mean `Decimal`?",
    "from decimal import zzz": "Correct the name, or install a version of the package that has it.",
    "import no_such_module_x": "Install the package and name it in `requires`, or correct the name.",
    "1 / 0": "Modules of a Loom only define things: do work in Steps.",
}


@pytest.mark.parametrize("line", IMPORTS)
def test_an_import_that_fails_has_a_cure_that_fits(line: str, tmp_path: Path) -> None:
    checked = check(write_loom(tmp_path / "notes", {"steps.py": line + "\n" + STEPS}))
    assert [(d.place, d.suggestion) for d in checked.diagnostics][:1] == [("steps.py:1", IMPORTS[line])]


def test_files_that_import_each_other_are_told_so(tmp_path: Path) -> None:
    folder = write_loom(tmp_path / "notes", {"schemas.py": "from .steps import publish\n" + SCHEMAS})
    hints = [d.suggestion for d in check(folder).diagnostics]
    assert "Two files import each other: move what both need into a third." in hints


@pytest.mark.parametrize(
    ("files", "cure"),
    [
        ({}, "Make one: it is the graph of the Loom."),
        ({"loom.yml": YAML}, "Rename `loom.yml`, if it is the graph."),
        ({"inner/notes/loom.yaml": YAML}, "Name the Loom's own folder, `inner/notes` in this one."),
    ],
)
def test_a_folder_without_a_loom_says_what_to_do(files: dict[str, str], cure: str, tmp_path: Path) -> None:
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    (problem,) = check(tmp_path).diagnostics
    assert (problem.message, problem.suggestion) == ("There is no loom.yaml in this folder.", cure)


def test_a_long_list_of_names_is_cut() -> None:
    assert did_you_mean("x", [f"name{n}" for n in range(99)]).endswith("name10, name11, ….")
    assert did_you_mean("x", []) == "There is none."


def test_every_required_key_is_explained_when_it_is_missing() -> None:
    shapes = (LoomShape, StageShape, CodeShape, AgentShape, RetryShape)
    required = {name for shape in shapes for name, field in shape.model_fields.items() if field.is_required()}
    # A Step without `code` or `agent` is told otherwise.
    assert required - {"code", "agent"} == set(_PURPOSES)


@pytest.mark.parametrize("kind", FILE_ERRORS)
def test_what_is_wrong_in_other_files_is_reported_with_its_place(kind: str, tmp_path: Path) -> None:
    changes, file, line, message = FILE_ERRORS[kind]
    checked = check(write_loom(tmp_path / "notes", changes))
    assert checked.loom is None
    found = [d for d in checked.diagnostics if d.file == file and message in d.message]
    assert found, checked.diagnostics
    assert found[0].line == line
    assert str(tmp_path) not in str(checked.diagnostics)


def test_a_secret_field_in_state_is_refused(tmp_path: Path) -> None:
    checked = check(
        write_loom(tmp_path / "notes", schemas=("    text: str =", "    key: SecretStr | None = None\n    text: str ="))
    )
    assert any("has a secret field" in d.message for d in checked.diagnostics)


def test_a_state_without_fields_is_refused_but_may_be_an_input(tmp_path: Path) -> None:
    roots = SCHEMAS + "\nfrom pydantic import RootModel\nclass Many(RootModel[list[str]]): ...\n"
    as_input = write_loom(tmp_path / "a", {"schemas.py": roots}, loom_yaml=("schemas:Input", "schemas:Many"))
    loom = load(as_input)
    assert loom.check_input(["x"]) == []
    assert [issue.path for issue in loom.check_input([1])] == ["/0"]
    as_state = write_loom(tmp_path / "b", {"schemas.py": roots}, loom_yaml=("schemas:Draft", "schemas:Many"))
    assert "no fields of its own" in check(as_state).diagnostics[0].message


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


def test_a_tool_without_docstring_is_a_warning_only(tmp_path: Path) -> None:
    checked = check(write_loom(tmp_path / "notes", tools=('    """Read the notes."""\n', "")))
    assert checked.loom is not None
    assert [(d.severity, d.file) for d in checked.diagnostics] == [(Severity.WARNING, "tools.py")]


def test_a_stage_route_that_nothing_takes_is_a_warning_only(tmp_path: Path) -> None:
    checked = check(write_loom(tmp_path / "notes", loom_yaml=("{empty: end,", "{emty: end, empty: end,")))
    assert checked.loom is not None
    (warning,) = checked.diagnostics
    assert warning.severity is Severity.WARNING
    assert warning.suggestion == "Did you mean `empty`?"


def test_yaml_is_read_as_version_1_2(tmp_path: Path) -> None:
    text = YAML.replace("{ready: write, empty: end}", "{yes: write, no: end}").replace("{empty: end,", "{no: end,")
    loom = load(write_loom(tmp_path / "notes", {"loom.yaml": text}))
    assert dict(loom.graph.step("draft", "collect").on) == {"yes": "write", "no": "end"}


def test_a_missing_setting_is_named_by_its_variable_and_no_value_is_shown(tmp_path: Path) -> None:
    model = "class Settings(BaseModel):\n    token: SecretStr\n    limit: int = 1\n    hosts: list[str] = []\n"
    old = 'class Settings(BaseModel):\n    token: SecretStr = SecretStr("sesame-open")\n'
    folder = write_loom(tmp_path / "notes", schemas=(old, model))
    (missing,) = check(folder, {}).diagnostics
    assert missing.message == "The setting LOOM_NOTES_TOKEN is missing."
    assert missing.line == line_of(YAML, "settings:")
    (wrong,) = check(folder, {"LOOM_NOTES_TOKEN": "t0ps3cret", "LOOM_NOTES_LIMIT": "many-s3cret"}).diagnostics
    assert "LOOM_NOTES_LIMIT" in wrong.message
    assert "s3cret" not in str(wrong)
    loom = load(folder, {"LOOM_NOTES_TOKEN": "t0ps3cret", "LOOM_NOTES_LIMIT": "5", "LOOM_NOTES_HOSTS": '["a", "b"]'})
    assert (loom.settings.limit, loom.settings.hosts) == (5, ["a", "b"])
    assert "t0ps3cret" not in repr(loom)


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("IOError", "OSError"),
        ("socket.timeout", "TimeoutError"),
        ("json.JSONDecodeError", "json.decoder.JSONDecodeError"),
        ("httpx.TransportError", "httpx.TransportError"),
        ("ArtifactConflict", "ArtifactConflict"),
        ("loomsvc.authoring.ArtifactConflict", "ArtifactConflict"),
        ("steps.Busy", "steps.Busy"),
    ],
)
def test_errors_are_kept_under_the_name_that_a_raised_exception_has(given: str, kept: str, tmp_path: Path) -> None:
    steps = STEPS + "\nclass Busy(Exception): ...\n"
    text = YAML.replace("[ConnectionError]", f"[{given}]")
    loom = load(write_loom(tmp_path / "notes", {"steps.py": steps, "loom.yaml": text}))
    assert loom.graph.step("draft", "collect").retry.errors == (kept,)


@pytest.mark.rule("R5", "E3")
@pytest.mark.parametrize(
    ("value", "paths"),
    [
        ({"topic": "x"}, []),
        ({"topic": "x", "count": "1"}, ["/count"]),
        ({"count": 1.5}, ["/topic", "/count"]),
        ("x", [""]),
        (None, [""]),
        ({"topic": "\x00"}, ["/topic"]),
        ({"topic": "x", "count": 2**53}, ["/count"]),
    ],
)
def test_input_is_checked_against_the_declared_model(value: object, paths: list[str], tmp_path: Path) -> None:
    loom = load(write_loom(tmp_path / "notes"))
    assert sorted(issue.path for issue in loom.check_input(value)) == sorted(paths)
    assert loom.input_schema()["required"] == ["topic"]


@pytest.mark.rule("R5")
@pytest.mark.parametrize(
    ("value", "fits"),
    [("x", True), (0, True), (None, True), ([], True), ("", False), (" \n", False), ("\ud800", False)],
)
def test_without_a_model_any_json_but_blank_text_is_taken(value: object, fits: bool, tmp_path: Path) -> None:
    loom = load(write_loom(tmp_path / "notes", loom_yaml=("input: schemas:Input\n", "")))
    assert (loom.check_input(value) == []) is fits
    assert loom.input_schema() is None


def test_the_authors_folder_is_never_written_to(tmp_path: Path) -> None:
    folder = write_loom(tmp_path / "notes")
    before = sorted(os.walk(folder))
    load(folder)
    assert sorted(os.walk(folder)) == before
