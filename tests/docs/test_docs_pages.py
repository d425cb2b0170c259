"""What the pages say of the code is what the code says of itself: links, names, tables."""

from __future__ import annotations

import dataclasses
import inspect
import re
from pathlib import Path
from typing import Any

import pytest
from docs_pages import PAGES, ROOT, anchors, blocks, differences, links, name_of, prose, table

REFERENCE = ROOT / "docs" / "reference"
RULE_MARK = re.compile(r"mark\.rule\(([^)]*)\)")
EXTERNAL = ("http://", "https://", "mailto:")


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_link_leads_to_a_file_and_heading_that_exist(page: Path) -> None:
    broken = []
    for line, target in links(page):
        if target.startswith(EXTERNAL):
            continue
        path, _, anchor = target.partition("#")
        found = (page.parent / path).resolve() if path else page
        if not found.exists() or not found.is_relative_to(ROOT):
            broken.append(f"line {line}: {target} is not there")
        elif anchor and anchor not in anchors(found):
            broken.append(f"line {line}: {name_of(found)} has no heading #{anchor}")
    assert not broken


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_path_of_the_repository_that_a_page_names_exists(page: Path) -> None:
    named = re.findall(r"`((?:apps|loomsvc|tests|docs|requirements)/[\w./-]+)`", prose(page))
    missing = [path for path in named if not (ROOT / path).exists()]
    assert not missing


def test_every_page_can_be_reached_from_the_front_page() -> None:
    seen: set[Path] = set()
    todo = [ROOT / "README.md"]
    while todo:
        here = todo.pop()
        if here not in seen and here in PAGES:
            seen.add(here)
            targets = (target.partition("#")[0] for _, target in links(here) if not target.startswith(EXTERNAL))
            todo += [(here.parent / target).resolve() for target in targets if target]
    assert sorted(set(PAGES) - seen) == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_what_is_to_be_made_is_a_target_of_the_makefile(page: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = re.findall(r"`make ([a-z-]+)`", prose(page))
    named += [
        name for block in blocks(page) for name in re.findall(r"^(?:\$ )?make ([a-z-]+)", block.text, re.MULTILINE)
    ]
    assert set(named) <= targets


def test_the_table_of_error_codes_is_that_of_the_code() -> None:
    from apps.core.errors import RETRYABLE, ErrorCode
    from apps.rest.problems import _STATUS

    shown = [(row["code"], row["HTTP"], row["retryable"]) for row in table(REFERENCE / "errors.md", "code", "HTTP")]
    assert shown == [(c.value, str(_STATUS[c].value), "yes" if c in RETRYABLE else "no") for c in ErrorCode]


def test_the_table_of_run_errors_is_that_of_the_code() -> None:
    from apps.runs.domain.statuses import RunErrorCode

    assert [row["lastError.code"] for row in table(REFERENCE / "errors.md", "lastError.code")] == list(RunErrorCode)


def test_the_table_of_issue_codes_has_every_code_that_is_given() -> None:
    source = "".join(path.read_text() for path in (ROOT / "apps").rglob("*.py") if "migrations" not in path.parts)
    given = set(re.findall(r'Issue\(\s*"([a-z_]+)"', source)) | set(re.findall(r'NotJson\("([a-z_]+)"', source))
    from apps.core.validation import _CODES

    given |= {*_CODES.values(), "type", "value", "nul", "surrogate", "integer_range", "number"}
    shown = {
        code for row in table(REFERENCE / "errors.md", "issue code") for code in re.findall(r"\w+", row["issue code"])
    }
    assert shown == given


def test_the_table_of_events_is_the_closed_list_of_the_code() -> None:
    from apps.runs.domain.statuses import EventType

    assert [row["type"] for row in table(REFERENCE / "events.md", "type", "when")] == list(EventType)


def test_the_table_of_endpoints_is_that_of_the_code() -> None:
    from apps.core.endpoints import Endpoint, all_endpoints

    def listed(endpoint: Endpoint[Any, Any]) -> str:
        return "no" if not endpoint.tool else "yes" if endpoint.sources is None else "for agents"

    shown = {
        row["Endpoint"]: (row["Tool"], row["REST, under `/api/v1`"], row["kind"])
        for row in table(REFERENCE / "protocol.md", "Endpoint")
    }
    declared = {
        e.name: (listed(e), f"{e.route.method} {e.route.path}" if e.route else "–", e.kind.value)
        for e in all_endpoints()
    }
    assert shown == declared


def test_the_table_of_entries_is_that_of_the_code() -> None:
    from apps.access.domain.entries import MCP_ENTRIES, REST_ENTRY

    shown = [row["Entry"] for row in table(REFERENCE / "protocol.md", "Entry")]
    assert shown == [entry.path for entry in (*MCP_ENTRIES, REST_ENTRY)]


def test_the_table_of_console_permissions_is_that_of_the_code() -> None:
    from apps.console.models import ProjectRole
    from apps.console.permissions import SUPERUSER_ONLY, Permission

    rows = table(ROOT / "docs" / "how-to" / "operate-with-the-console.md", "permission", "lets a person")
    assert [(row["permission"], row["lets a person"]) for row in rows] == list(ProjectRole._meta.permissions)
    assert {row["permission"] for row in rows} == {p.value for p in Permission} - SUPERUSER_ONLY


def test_the_sections_of_the_attention_page_are_those_of_the_code() -> None:
    from apps.console.pages.attention import TITLES

    rows = table(ROOT / "docs" / "how-to" / "operate-with-the-console.md", "section", "next step")
    assert [row["section"] for row in rows] == list(TITLES.values())


def test_every_environment_variable_that_is_read_is_described_and_no_other() -> None:
    read: set[str] = set()
    for path in [*(ROOT / "apps").rglob("*.py"), *(ROOT / "loomsvc").rglob("*.py")]:
        asks = r"(?:environ(?:\.get|\.setdefault)?[\[(]|number\(|names\()"
        text = path.read_text(encoding="utf-8")
        read |= set(re.findall(asks + r'"([A-Z_]+)"', text)) | set(re.findall(r'"(LOOMSVC_[A-Z_]+)"', text))
    # Settings of single Looms, and what is Python's own.
    read = {name for name in read if name == "LOOM_PATHS" or not name.startswith(("LOOM_", "PYTHON"))}
    shown = {row["variable"] for row in table(REFERENCE / "settings.md", "variable")}
    assert shown - {"LOOM_<LOOM>_<FIELD>"} == read


def test_the_defaults_of_the_settings_are_those_of_the_code(monkeypatch: pytest.MonkeyPatch) -> None:
    from apps.core import conf

    shown = {row["variable"]: row["default"] for row in table(REFERENCE / "settings.md", "variable")}
    for name in shown:
        monkeypatch.delenv(name, raising=False)
    defaults = conf.from_environment()
    numbers = {
        f"LOOMSVC_{field.name.upper()}": getattr(defaults, field.name)
        for field in dataclasses.fields(defaults)
        if isinstance(getattr(defaults, field.name), int | float)
    }
    assert {name: float(shown[name]) for name in numbers} == {name: float(value) for name, value in numbers.items()}
    assert shown["LOOMSVC_DATA"] == defaults.data_dir.name
    assert defaults.loom_paths == ()


def test_the_public_names_are_those_of_the_authoring_module() -> None:
    import loomsvc.authoring

    rows = table(REFERENCE / "authoring.md", "name", "is")
    shown = {name for row in rows for name in re.findall(r"\w+", row["name"])}
    assert shown == set(loomsvc.authoring.__all__)


def test_the_members_of_a_code_step_are_those_of_the_class() -> None:
    from loomsvc.authoring import CodeStep

    shown: dict[str, str] = {}
    for row in table(REFERENCE / "authoring.md", "member", "is"):
        for member in re.findall(r"(?:^|`, `|^`?)(\w+(?:\([^`]*\))?)", row["member"]):
            name, _, signature = member.partition("(")
            shown[name] = signature.rstrip(")")
    made = set(re.findall(r"self\.([a-z]\w*) =", inspect.getsource(CodeStep) + inspect.getsource(CodeStep.__mro__[1])))
    public = {name for name in dir(CodeStep) if not name.startswith("_")} | made
    assert set(shown) == public
    for name, signature in shown.items():
        member: Any = inspect.getattr_static(CodeStep, name, None)
        if inspect.isfunction(member):
            parameters = [
                p.replace(annotation=inspect.Parameter.empty)
                for p in list(inspect.signature(member).parameters.values())[1:]
            ]
            assert str(inspect.Signature(parameters))[1:-1] == signature, name


def test_the_keys_of_loom_yaml_are_those_of_the_code() -> None:
    from apps.looms.checking.shapes import AgentShape, CodeShape, LoomShape, RetryShape, StageShape

    page = REFERENCE / "loom-yaml.md"
    rows = [(row["key"], row["needed"]) for row in table(page, "key", "needed", "says")]
    shapes = (LoomShape, StageShape, CodeShape, AgentShape)
    declared = [
        (name, "yes" if field.is_required() else "no") for shape in shapes for name, field in shape.model_fields.items()
    ]
    assert rows == declared
    retry = [(row["key of `retry`"], row["needed"]) for row in table(page, "key of `retry`")]
    assert retry == [(name, "yes" if field.is_required() else "no") for name, field in RetryShape.model_fields.items()]


def test_the_keys_of_a_script_are_those_of_the_code() -> None:
    from apps.looms.scripts import ExpectShape, ScriptShape, read_script

    page = REFERENCE / "testing.md"
    assert [row["key"] for row in table(page, "key", "says")] == list(ScriptShape.model_fields)
    assert [row["key of `expect`"] for row in table(page, "key of `expect`")] == list(ExpectShape.model_fields)
    (shown,) = [block.text for block in blocks(page) if block.text.startswith("description: ")]
    assert read_script(shown, "shown.yaml")[1] == []


def test_the_arguments_of_run_loom_are_those_of_the_code() -> None:
    from loomsvc.testing import run_loom

    rows = table(REFERENCE / "testing.md", "argument of `run_loom`")
    shown = [name for row in rows for name in re.findall(r"\w+", row["argument of `run_loom`"])]
    assert sorted(shown) == sorted(inspect.signature(run_loom).parameters)


@pytest.mark.parametrize(
    ("page", "columns"), [("rules.md", ("rule", "what we do")), ("faults.md", ("fault", "what holds"))]
)
def test_each_test_that_a_page_of_rules_names_proves_its_rule(page: str, columns: tuple[str, str]) -> None:
    wrong = []
    marks = [call for path in (ROOT / "tests").rglob("test_*.py") for call in RULE_MARK.findall(path.read_text())]
    for row in table(REFERENCE / page, *columns):
        rule = f'"{row[columns[0]]}"'
        if not row["test"] and any(rule in call for call in marks):
            wrong.append(f"{rule} is named by a test")
        for target in re.findall(r"\(([^)]+)\)", row["test"]):
            if not any(rule in call for call in RULE_MARK.findall((REFERENCE / target).read_text())):
                wrong.append(f"{target} does not name {rule}")
    assert not wrong


def test_the_tables_of_commands_are_those_of_the_code() -> None:
    shown = [row["command"] for row in table(REFERENCE / "commands.md", "command")]
    files = (ROOT / "apps").glob("*/management/commands/*.py")
    assert sorted(shown) == sorted(path.stem for path in files if not path.stem.startswith("_"))


def test_the_functions_of_the_walk_are_where_it_says() -> None:
    """``name`` (`file`) in the map names something that the file defines."""
    named = re.findall(r"`([\w.]+)` \(`([\w/.]+\.py)`\)", prose(ROOT / "apps" / "README.md"))
    assert len(named) > 10
    for name, path in named:
        last = name.rpartition(".")[2]
        assert re.search(rf"^\s*(?:def|class) {last}\b", (ROOT / path).read_text(), re.MULTILINE), f"{name} in {path}"


def test_a_line_that_is_not_as_shown_is_noticed() -> None:
    assert differences(("a … c", "…", "end"), "a b c\nx\ny\nend\n") is None
    assert differences(("a … c",), "a b c\nmore\n")
    assert differences(("a",), "b\n")
    assert differences((), "whatever\n") is None
