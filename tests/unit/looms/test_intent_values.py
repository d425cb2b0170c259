"""The Loom ``intent`` keeps its values in bounds, and its agents to what they are for."""

from __future__ import annotations

import json
from typing import Any

import pytest

from apps.core import json_text
from tests.unit.looms.intent_loom import LOOM, checks, pages, schemas, specification, tools, workspace

#: The characters that take most bytes as JSON: of those that a model takes, and of those that a person may send.
WIDE = "\U0001f600"
WIDEST = "\x01"


def size(*values: Any) -> int:
    dumped = [value.model_dump(mode="json") if hasattr(value, "model_dump") else value for value in values]
    return len(json_text.dumps(dumped).encode())


def largest_checks() -> list[Any]:
    """As many as there can be, the plan's and those that came with the wish, each at its own bound."""
    command = ["python", *['"' * 250] * 11]
    return [schemas.Check(command=command, purpose="p" * 1000) for _ in range(2 * schemas.MAX_CHECKS)]


def largest_results() -> list[Any]:
    return [
        schemas.CheckResult(
            command=check.command,
            purpose=check.purpose,
            ended="failed",
            exit_code=1,
            seconds=1.0,
            output="\n" * checks.MAX_OUTPUT,
            left_out=10**12,
        )
        for check in largest_checks()
    ]


def largest_judgements() -> list[Any]:
    reason = WIDE * 1000
    return [schemas.Judgement(requirement=f"R{n}", is_met=False, reason=reason) for n in range(1, 41)]


def largest_files() -> list[Any]:
    return [schemas.File(path="a" * 120, size=10**9, sha256="0" * 64) for _ in range(workspace.MAX_FILES)]


def test_the_largest_values_that_can_come_about_fit_into_what_is_kept() -> None:
    document = schemas.MAX_JSON
    paths = [file.path for file in largest_files()]
    notes = [WIDEST * 4000] * 10
    answer = {"question": WIDE * 1000, "answer": WIDEST * specification.MAX_ANSWER}
    answers = [answer] * (8 * specification.ASK_ROUNDS)
    option = {"id": "a" * 40, "label": WIDE * 200}
    asked = [{"id": "a" * 40, "question": WIDE * 1000, "why": WIDE * 1000, "options": [option] * 8}] * 8
    report = size(*largest_results(), *largest_judgements(), WIDE * 4000)
    kept = {
        "State of specification": document + size(asked, answers, notes),
        "State of solution": document + size(notes),
        "State of implementation": size(*largest_files()),
        "State of validation": size(*largest_results(), *largest_judgements(), notes),
        "the solution filed": document + size(*largest_checks()),
        "the manifest filed": size(*largest_files(), paths, paths, WIDE * 4000),
        "the report filed": report,
        "read_wish": size(WIDE * 10_000) + 2 * document + size(answers, notes),
        "read_file": size(WIDEST * workspace.MAX_FILE_BYTES),
        "read_assignment": 3 * document + size(notes),
        "read_task": 2 * document + size(*largest_checks()) + report,
        "read_case": 2 * document + size(paths, *largest_results(), notes, WIDE * 4000),
    }
    assert {name: bytes_ for name, bytes_ in kept.items() if bytes_ > json_text.MAX_VALUE_BYTES} == {}


@pytest.mark.parametrize("name", ["Request", "Specification", "Plan"])
def test_what_an_agent_or_a_person_writes_is_bounded_as_a_whole(name: str) -> None:
    words = WIDE * 1000
    files = [{"path": f"{n}", "purpose": words} for n in range(60)]
    requirements = [{"id": f"R{n}", "text": words, "acceptance": words} for n in range(1, 41)]
    command = ["python", *[WIDE * 500] * 19]
    values: dict[str, dict[str, Any]] = {
        "Request": {"wish": "w", "folder": "/f", "checks": [command] * 10},
        "Specification": {"title": "t", "summary": "s", "requirements": requirements},
        "Plan": {"approach": "a", "files": files},
    }
    with pytest.raises(ValueError, match="Make it shorter: as JSON it may have 65536 bytes"):
        getattr(schemas, name).model_validate_json(json.dumps(values[name]))


@pytest.mark.parametrize("text", ["", " \n", "a\x07b", "a\x1b[31mb", "a\u202eb", "a\x85b"], ids=ascii)
def test_a_text_for_a_person_has_words_and_no_tricks(text: str) -> None:
    with pytest.raises(ValueError, match=r"Write some words|Leave out control|at least 1"):
        schemas.Built(outcome="built", summary=text)


@pytest.mark.parametrize("text", ["two\nlines\r\nand\ta tab", "naïve ‘quotes’ 日本\u3000語 👩\u200d👩\u200d👧"])
def test_any_language_may_be_written(text: str) -> None:
    assert schemas.Built(outcome="built", summary=text).summary == text


def question(**changes: Any) -> dict[str, Any]:
    return {"id": "a", "question": "What?", "why": "Because.", **changes}


@pytest.mark.parametrize(
    ("output", "why"),
    [
        ({"outcome": "asks"}, "with the outcome asks, and only then"),
        ({"outcome": "drafted", "questions": [question()]}, "with the outcome asks, and only then"),
        ({"outcome": "asks", "questions": [question(), question()]}, "each question an id of its own"),
        (
            {"outcome": "asks", "questions": [question(options=[{"id": "x", "label": "X"}] * 2)]},
            "each option of a question an id of its own",
        ),
        ({"outcome": "asks", "questions": [question()] * 9}, "at most 8 items"),
        ({"outcome": "confirmed"}, "'drafted' or 'asks'"),
    ],
)
def test_the_analysts_questions_can_be_put_to_a_person(output: dict[str, Any], why: str) -> None:
    assert LOOM is not None
    (issue,) = LOOM.agents["specification", "draft"].read_output(output)[1]
    assert why in issue.suggestion


def test_requirements_have_ids_of_their_own() -> None:
    one = {"id": "R1", "text": "t", "acceptance": "a"}
    with pytest.raises(ValueError, match="an id of its own"):
        schemas.Specification(title="t", summary="s", requirements=[one, one])


def test_an_agent_has_the_tools_of_its_stage_and_only_the_developer_may_write() -> None:
    assert LOOM is not None
    given = {task.agent_id: [tool.id for tool in task.tools] for task in LOOM.agents.values()}
    reading = ["list_files", "read_file"]
    assert given == {
        "analyst": ["read_wish", *reading, "save_specification"],
        "architect": ["read_assignment", *reading, "save_plan"],
        "developer": ["read_task", *reading, "write_file", "remove_file"],
        "examiner": ["read_case", *reading, "save_judgements"],
    }
    for task in LOOM.agents.values():
        assert all(tool.description for tool in task.tools)
        assert all(f"`{tool.id}`" in task.instructions for tool in task.tools)


def test_every_agent_has_a_skill_and_the_analyst_a_template_to_read() -> None:
    assert LOOM is not None
    skills = {task.agent_id: [skill.name for skill in task.skills] for task in LOOM.agents.values()}
    assert skills == {
        "analyst": ["specifying"],
        "architect": ["planning"],
        "developer": ["building"],
        "examiner": ["examining"],
    }
    (skill,) = LOOM.agents["specification", "draft"].skills
    assert [asset.id for asset in skill.assets] == ["specifying/template.md"]
    assert "`template.md`" in skill.content


def test_a_page_lets_no_word_of_an_agent_pass_for_its_own() -> None:
    trick = "fine\n# Is this what you want\n\n```\n- [x] confirmed"
    requirement = schemas.Requirement(id="R1", text=trick, acceptance=trick)
    page = pages.specification_page(
        schemas.Specification(title=trick, summary=trick, requirements=[requirement], assumptions=[trick])
    )
    headings = [line for line in page.splitlines() if line.lstrip().startswith("#")]
    assert [line.split(":")[0] for line in headings] == ["# Is this what you want", "## What must hold", "## Assumed"]
    assert not any(line.startswith("```") for line in page.splitlines())


def test_the_page_of_the_plan_begins_with_every_command_as_it_will_run() -> None:
    command = ["python", "-c", "print('a  b'); `x` ``y``", "*"]
    plan = schemas.Plan(
        approach="a\n# Nothing will run",
        files=[{"path": "a.py", "purpose": "p"}],
        checks=[{"command": command, "purpose": "p"}],
    )
    request = schemas.Request(wish="w", folder="/f", checks=[["make", "test"]], check_seconds=7, repairs=2)
    page = pages.solution_page(schemas.Solution(plan=plan, checks=tools.filed.all_checks(request, plan)), request)
    before = page.partition("\n## ")[0]
    assert "for up to 7 s each, up to 3 times" in before
    assert "- `make test` It came with the wish." in before
    assert "- ``` python -c 'print('\"'\"'a  b'\"'\"'); `x` ``y``' '*' ``` p" in before
    assert "> # Nothing will run" in page


def test_without_checks_the_person_is_told_so() -> None:
    plan = schemas.Plan(approach="a", files=[{"path": "a.py", "purpose": "p"}])
    request = schemas.Request(wish="w", folder="/f")
    assert "**no checks**" in pages.solution_page(schemas.Solution(plan=plan, checks=[]), request)
