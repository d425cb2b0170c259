"""Every kind of error in a Loom's other files: file, line, message and what to do about it."""

from __future__ import annotations

from pathlib import Path

import pytest

from apps.looms.diagnostics import Severity
from tests.unit.looms.loom_folders import SCHEMAS, STEPS, STYLE, TOOLS, WRITER, YAML, check, load, write_loom

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


def test_a_tool_without_docstring_is_a_warning_only(tmp_path: Path) -> None:
    checked = check(write_loom(tmp_path / "notes", tools=('    """Read the notes."""\n', "")))
    assert checked.loom is not None
    assert [(d.severity, d.file) for d in checked.diagnostics] == [(Severity.WARNING, "tools.py")]
