"""The offline model: the same answer every time, by a script or derived from schema and input."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.agent_sessions.domain.programs import Program, ProgramTool, canonical_form, program_digest
from apps.agent_sessions.runtime.derived import derive
from apps.agent_sessions.runtime.ended import Failed, Limits, Succeeded, ToolRefused
from apps.agent_sessions.runtime.files import ModelsInvalid
from apps.agent_sessions.runtime.fitting import check_schema, find_misfits
from apps.agent_sessions.runtime.models import Catalogue, read_catalogue
from apps.agent_sessions.runtime.reasoning import reason
from apps.agent_sessions.runtime.scripts import Script, filled, read_script_file, read_scripts
from apps.agent_sessions.runtime.tasks import file_tool_id, program_of, read_skill_file
from apps.looms.sources import EXAMPLES
from apps.looms.testing import load_folder

SCHEMA = {
    "type": "object",
    "properties": {"outcome": {"enum": ["done", "again"]}, "words": {"type": "string", "maxLength": 12}},
    "required": ["outcome", "words"],
}


def play(script: Script | None, input: Any, tools: dict[str, Any] | None = None, schema: Any = SCHEMA) -> Any:
    catalogue = Catalogue()
    declared = tuple(ProgramTool(name, name, {"type": "object"}, {}) for name in tools or {})
    return reason(
        Program("offline", "Do it.", tools=declared, output_schema=schema),
        input,
        tools=tools or {},
        access=catalogue.access(catalogue.models["offline"], api_key=None, script=script),
        limits=Limits(output_repairs=1),
        before_request=lambda: True,
        report=lambda _: None,
    )


SCRIPTS = """
agents:
  helper:
    - calls:
        - {tool: look, input: {where: "{{input/folder}}"}}
        - {tool: count, input: {words: "{{look/files/0}} and {{look/files/1}}", all: "{{look/files}}"}}
      output: {outcome: done, words: "{{count}} files"}
    - output: {outcome: again, words: second}
  other:
    - output: {outcome: sometimes}
"""


@pytest.mark.rule("B6")
def test_a_script_plays_tools_and_output_with_what_came_before() -> None:
    script = read_scripts(SCRIPTS, "offline.yaml")["helper"]
    seen: list[Any] = []

    def look(arguments: Any) -> Any:
        seen.append(arguments)
        return {"files": ["a~", "b"]}

    def count(arguments: Any) -> Any:
        seen.append(arguments)
        return 2

    ended = play(script, {"folder": "/here"}, {"look": look, "count": count})
    assert isinstance(ended, Succeeded)
    assert ended.output == {"outcome": "done", "words": "2 files"}
    assert seen == [{"where": "/here"}, {"words": "a~ and b", "all": ["a~", "b"]}]
    assert (ended.usage.requests, ended.usage.tool_calls) == (3, 2)
    assert play(script, {"folder": "/here"}, {"look": look, "count": count}) == ended


@pytest.mark.rule("B6")
@pytest.mark.parametrize(("visit", "words"), [(1, "null files"), (2, "second"), (3, "second"), (99, "second")])
def test_each_visit_has_its_play_and_the_last_one_goes_on(visit: int, words: str) -> None:
    def refuse(_: Any) -> Any:
        raise ToolRefused("not here")

    script = read_scripts(SCRIPTS, "offline.yaml")["helper"]
    ended = play(script, {"cursor": {"visit": visit}}, {"look": refuse, "count": lambda _: None})
    assert isinstance(ended, Succeeded)
    assert ended.output["words"] == words


@pytest.mark.rule("B6")
def test_a_script_whose_output_does_not_fit_fails_like_any_model() -> None:
    ended = play(read_scripts(SCRIPTS, "offline.yaml")["other"], "x")
    assert isinstance(ended, Failed)
    assert (ended.code, ended.usage.requests) == ("agent_output_invalid", 2)


@pytest.mark.rule("B6")
@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("agents: [", "scripts.yaml"),
        ("agents: {a: []}", "agents.a"),
        ("agents: {a: [{say: x}]}", "agents.a.0.say"),
        ("agents: {a: [{calls: [{tool: 3}]}]}", "agents.a.0.calls.0.tool"),
        ("plays: {}", "agents"),
    ],
)
def test_a_script_that_cannot_be_used_says_where(text: str, told: str, tmp_path: Path) -> None:
    file = tmp_path / "scripts.yaml"
    file.write_text(text)
    with pytest.raises(ModelsInvalid) as invalid:
        read_script_file(file)
    assert told in str(invalid.value)
    assert str(tmp_path) not in str(invalid.value)


def test_places_that_are_not_there_are_null() -> None:
    outputs = {"a": {"b": [1, {"c/d": True}]}}
    assert filled("{{a/b/1/c~1d}}", outputs) is True
    assert filled(["{{a/b/7}}", "{{a/x/y}}", "{{ z }}", {"k": "-{{a/b/0}}-"}], outputs) == [
        None, None, None, {"k": "-1-"},
    ]  # fmt: skip


TEXTS = st.text(st.characters(codec="ascii", categories=["L", "N", "Zs"]), max_size=8)
SCHEMAS = st.recursive(
    st.one_of(
        st.builds(lambda low: {"type": "string", "minLength": low, "maxLength": low + 9}, st.integers(0, 30)),
        st.builds(lambda low: {"type": "integer", "minimum": low, "maximum": low + 3}, st.integers(-50, 50)),
        st.builds(lambda low: {"type": "number", "exclusiveMinimum": low}, st.integers(-9, 9)),
        st.builds(lambda top: {"type": "integer", "exclusiveMaximum": top}, st.integers(-9, 9)),
        st.builds(lambda step: {"type": "integer", "multipleOf": step, "minimum": 5}, st.integers(1, 9)),
        st.builds(lambda value: {"const": value}, TEXTS),
        st.builds(lambda values: {"enum": values}, st.lists(TEXTS, min_size=1, max_size=3)),
        st.sampled_from(
            [{"type": "boolean"}, {"type": "null"}, {}, {"type": ["null", "integer"]}, {"$ref": "#/$defs/n"}]
        ),
        st.sampled_from([{"type": "string", "format": one} for one in ("date-time", "uuid", "email", "uri")]),
    ),
    lambda inner: st.one_of(
        st.builds(lambda item, least: {"type": "array", "items": item, "minItems": least}, inner, st.integers(0, 3)),
        st.builds(
            lambda members: {"type": "object", "properties": members, "required": list(members)},
            st.dictionaries(TEXTS, inner, max_size=3),
        ),
        st.builds(lambda one, other: {"anyOf": [one, other]}, inner, inner),
        st.builds(lambda one: {"allOf": [one]}, inner),
    ),
    max_leaves=8,
)
INPUTS = st.one_of(TEXTS, st.integers(-99, 99), st.dictionaries(TEXTS, st.one_of(TEXTS, st.integers(), st.none())))


@pytest.mark.rule("B6")
@settings(max_examples=150, deadline=None)
@given(schema=SCHEMAS, value=INPUTS)
def test_without_a_script_the_output_fits_the_schema(schema: dict[str, Any], value: Any) -> None:
    whole = {**schema, "$defs": {"n": {"type": "integer", "minimum": 3}}}
    assert check_schema(whole) == []
    made = derive(whole, value)
    assert find_misfits(whole, made, max_bytes=10**6) == [], (whole, made)
    assert derive(json.loads(json.dumps(whole)), value) == made


def test_a_schema_that_refers_to_itself_ends_and_items_that_must_differ_do() -> None:
    left = {"anyOf": [{"$ref": "#"}, {"type": "null"}]}
    tree = {"type": "object", "properties": {"left": left}, "required": ["left"]}
    assert json.dumps(derive(tree, "x")).count("left") < 6
    for item in ({"type": "string", "maxLength": 9}, {"type": "integer", "multipleOf": 3}):
        schema = {"type": "array", "items": item, "minItems": 4, "uniqueItems": True}
        assert find_misfits(schema, derive(schema, "a long text"), max_bytes=1000) == []


@pytest.mark.rule("B6")
def test_members_of_the_input_that_fit_are_taken_over() -> None:
    schema = {
        "type": "object",
        "properties": {"wish": {"type": "string"}, "times": {"type": "integer"}, "more": {"type": "string"}},
        "required": ["wish", "times"],
    }
    assert derive(schema, {"wish": "tea", "times": "often"}) == {"wish": "tea", "times": 0}
    assert derive(None, "tea") == "offline: tea"


@pytest.mark.rule("B2")
@pytest.mark.parametrize(
    ("schema", "issues"),
    [
        ([], [("type", "")]),
        ({"type": "objekt"}, [("schema", "/type")]),
        ({"properties": {"a": {"minimum": "x"}}}, [("schema", "/properties/a/minimum")]),
        ({"items": {"$ref": "https://example.org/x"}}, [("reference", "/items/$ref")]),
        ({"const": {"$ref": "https://example.org/x"}}, []),
        ({"properties": {"$ref": {"type": "string"}}}, []),
        ({"minimum": 2**60}, [("integer_range", "/minimum")]),
    ],
)
def test_an_output_schema_is_checked_with_pointers(schema: Any, issues: list[tuple[str, str]]) -> None:
    assert [(issue.code, issue.path) for issue in check_schema(schema)] == issues


def test_a_schema_that_refers_to_itself_without_end_or_to_nothing_is_an_issue_and_no_crash() -> None:
    for schema in ({"$ref": "#"}, {"$ref": "#/$defs/gone"}):
        assert [issue.code for issue in find_misfits(schema, 1, max_bytes=100)] == ["schema"]


@pytest.mark.rule("B3", "B8")
def test_the_digest_is_of_everything_that_the_model_is_given() -> None:
    tool = ProgramTool("add", "Adds.", {"type": "object"}, {"type": "integer"})
    program = Program("offline", "Work.", tools=(tool,), output_schema=SCHEMA)
    assert program_digest(program) == program_digest(replace(program, output_schema=dict(reversed(SCHEMA.items()))))
    others = [
        replace(program, model="p/m"),
        replace(program, instructions="Work!"),
        replace(program, output_schema=None),
        replace(program, tools=()),
        replace(program, tools=(replace(tool, description="Adds"),)),
        replace(program, tools=(replace(tool, is_end_tool=True),)),
    ]
    assert len({program_digest(one) for one in [program, *others]}) == len(others) + 1
    assert json.loads(json.dumps(canonical_form(program))) == canonical_form(program)


@pytest.mark.rule("B2", "A7")
def test_a_looms_agent_is_a_program_and_reads_its_skills_files() -> None:
    loom = load_folder(EXAMPLES / "intent").loom
    assert loom is not None
    task = loom.agents["specification", "draft"]
    program = program_of(task, model="offline")
    ids = [tool.id for tool in program.tools]
    assert ids == ["read_wish", "list_files", "read_file", "save_specification", "read_skill_file"]
    assert [tool.id for tool in program.tools if tool.is_end_tool] == ["save_specification"]
    asset = program.skills[0].assets[0]
    assert (asset.id, file_tool_id(task)) == ("specifying/template.md", "read_skill_file")
    found = read_skill_file(task, {"id": asset.id})
    assert (found["encoding"], len(found["content"].encode())) == ("utf8", asset.size)
    for wrong in ({}, {"id": "../loom.yaml"}, {"id": asset.id, "more": 1}, {"id": None}):
        with pytest.raises(ToolRefused, match=r"specifying/template\.md"):
            read_skill_file(task, wrong)


MODELS = """
providers:
  openai:
    kind: openai
    models: [gpt-x, {id: gpt-y, name: The other, max_tokens: 100}]
  here:
    kind: anthropic
    name: My own
    base_url: http://localhost:1234
    key: none
    stream: true
    models: [small]
allow_hosts: [LOCALHOST:1234]
roles: {planning: openai/gpt-x}
agents: {intent/examiner: here/small}
"""


@pytest.mark.rule("B1", "B6")
def test_the_file_of_models_is_the_catalogue() -> None:
    catalogue = read_catalogue(MODELS, "models.yaml")
    assert list(catalogue.models) == ["offline", "openai/gpt-x", "openai/gpt-y", "here/small"]
    shown = {model.id: (model.display_name, model.needs_key) for model in catalogue.models.values()}
    assert shown["openai/gpt-y"] == ("OpenAI: The other", True)
    assert shown["here/small"] == ("My own: small", False)
    assert [(one.id, one.display_name, one.needs_key) for one in catalogue.providers()] == [
        ("openai", "OpenAI", True), ("here", "My own", False),
    ]  # fmt: skip
    assert catalogue.nearest("opanai/gpt-x") == "openai/gpt-x"
    small = catalogue.models["here/small"]
    access = catalogue.access(small, api_key=None)
    assert (access.model, access.stream, access.allowed_hosts) == ("small", True, frozenset({"localhost:1234"}))
    assert catalogue.access(catalogue.models["openai/gpt-y"], api_key="k").max_tokens == 100


@pytest.mark.rule("R15")
@pytest.mark.parametrize(
    ("agent", "role", "model"),
    [
        ("intent/examiner", "planning", "here/small"),
        ("intent/analyst", "planning", "openai/gpt-x"),
        ("intent/analyst", "coding", "offline"),
        ("other/agent", None, "offline"),
    ],
)
def test_an_agent_step_gets_the_model_of_its_agent_or_its_role_or_the_default(
    agent: str, role: str | None, model: str
) -> None:
    assert read_catalogue(MODELS, "models.yaml").resolve(agent=agent, role=role, chosen={}).model_id == model


@pytest.mark.rule("B6")
@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("providers: [", "models.yaml"),
        ("provider: {}", "`provider`"),
        ("[]", "line 1: `the file`"),
        ("false", "line 1: `the file`"),
        ("providers: {p: {kind: other, models: [m]}}", "line 1: `providers.p.kind`"),
        ("providers: {p: {kind: openai, models: []}}", "`providers.p.models`"),
        ("providers: {offline: {kind: openai, models: [m]}}", "taken by the built-in model"),
        ("providers: {p: {kind: openai, base_url: 'https://k:v@h', models: [m]}}", "no user and no password"),
        ("default: p/m", "`default` names the model 'p/m'"),
        ("roles: {planning: gpt}", "`planning` names the model 'gpt'"),
        ("providers: {P: {kind: openai, models: [m]}}", "`providers.P"),
    ],
)
def test_a_file_of_models_that_cannot_be_used_says_where(text: str, told: str) -> None:
    with pytest.raises(ModelsInvalid) as invalid:
        read_catalogue(text, "models.yaml")
    assert told in str(invalid.value)
