"""Schemas and checks of a Loom's author, and what agents submit to them, hostile or careless."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from apps.runs.models import Run
from tests.conftest import Service
from tests.integration.agent_work import ANY, code, issues, make_agent_loom, waiting_agent

pytestmark = pytest.mark.django_db(transaction=True)


#: Output models: results that complete the call, and results that are refused at a place.
OUTPUTS: dict[str, tuple[str, list[Any], list[tuple[Any, str]]]] = {
    "a default outcome": (
        'outcome: Literal["done", "again"] = "done"',
        [{}, {"outcome": "again"}],
        [({"outcome": "never"}, "/result/outcome"), ({"outcome": None}, "/result/outcome")],
    ),
    "forbids others": (
        'model_config = ConfigDict(extra="forbid")\n    outcome: Literal["done", "again"]',
        [{"outcome": "done"}],
        [({"outcome": "done", "x/y": 1}, "/result/x~1y"), ({}, "/result/outcome"), ([], "/result")],
    ),
    "aliases": (
        'outcome: str\n    long_text: str = Field(alias="longText", min_length=2)',
        [{"outcome": "done", "longText": "ab"}],
        [
            ({"outcome": "done", "long_text": "ab"}, "/result/longText"),
            ({"outcome": "done", "longText": "a"}, "/result/longText"),
        ],
    ),
    "any text": (
        "outcome: str",
        [{"outcome": "done"}],
        [
            ({"outcome": value}, "/result/outcome")
            for value in ("Done", "done ", "", "end", 1, None, ["done"], {"done": 1})
        ],
    ),
    "tidies its outcome": (
        "outcome: Annotated[str, BeforeValidator(lambda said: said[0] if isinstance(said, list) else said.lower())]",
        [{"outcome": "DONE"}, {"outcome": ["again"]}],
        [({"outcome": ["never"]}, "/result/outcome")],
    ),
    "unpacks": (
        'outcome: str\n\n    @model_validator(mode="before")\n    @classmethod\n    def unpack(cls, value):\n'
        '        return value["packed"] if "packed" in value else value',
        [{"packed": {"outcome": "done"}}],
        [({"packed": {"outcome": "no"}}, "/result/outcome")],
    ),
    "checks as a whole": (
        'outcome: str\n    low: int\n    high: int\n\n    @model_validator(mode="after")\n    def ordered(self):\n'
        '        if self.low > self.high:\n            raise ValueError("low is above high")\n        return self',
        [{"outcome": "done", "low": 1, "high": 1}],
        [({"outcome": "done", "low": 2, "high": 1}, "/result")],
    ),
    "is careless": (
        "outcome: Annotated[str, AfterValidator(lambda value: {'done': value}[value])]",
        [{"outcome": "done"}],
        [({"outcome": "missing"}, "/result")],
    ),
    "leaves": (
        "outcome: Annotated[str, AfterValidator(lambda value: value if value == 'done' else sys.exit(1))]",
        [{"outcome": "done"}],
        [({"outcome": "again"}, "/result")],
    ),
}


@pytest.mark.rule("A8", "E3")
@pytest.mark.parametrize("name", OUTPUTS)
def test_output_models_of_every_kind_take_what_fits_and_point_at_what_does_not(
    service: Service, loom_paths: Path, name: str
) -> None:
    members, fitting, wrong = OUTPUTS[name]
    loom = make_agent_loom(loom_paths, "outputs", f"\nclass Output(BaseModel):\n    {members}\n")
    agent = waiting_agent(service, loom)
    before = agent.run()
    for result, place in wrong:
        refused = agent.ask("complete_agent_call", ownerToken=agent.token, result=result)
        assert (code(refused), [path for _, path in issues(refused)]) == ("INVALID_REQUEST", [place]), result
        assert agent.ask("complete_agent_call", ownerToken=agent.token, result=result) == refused
    assert agent.run() == before
    for result in fitting:
        agent = waiting_agent(service, loom)
        assert "receipt" in agent.ask("complete_agent_call", ownerToken=agent.token, result=result), result
        run = Run.objects.get(pk=agent.run_id)
        assert run.status in ("completed", "queued"), run.last_error
        assert run.previous["value"] == result, "kept as it was submitted"


CARELESS = """
def check(value):
    if value == "leave":
        sys.exit(1)
    return {"fine": "fine"}[value]

Checked = Annotated[str, AfterValidator(check)]

class Input(BaseModel):
    word: Checked = "fine"

@tool
def say(call: ToolCall[Notes], word: Checked, other: int = 0) -> str:
    return word
"""


@pytest.mark.rule("A3", "R5", "E3")
def test_a_check_of_the_authors_that_raises_anything_refuses_the_value_and_takes_nobody_along(
    service: Service, loom_paths: Path
) -> None:
    loom = make_agent_loom(loom_paths, "careless", CARELESS, tools=("say",), top="input: code:Input\n")
    for word in ("leave", "missing"):
        refused = service.operate("run", loomName=loom, input={"word": word})
        assert issues(refused) == [("value", "/input")]
    agent = waiting_agent(service, loom)
    for word, name in (("leave", "SystemExit"), ("missing", "KeyError")):
        refused = agent.tool("say", "one", word=word)
        assert issues(refused) == [("value", "/input")]
        assert name in refused["error"]["message"]
    assert agent.tool("say", "one", word="fine")["output"] == "fine"


@pytest.mark.rule("K23", "R5", "A3", "A8")
def test_an_operators_larger_bound_holds_for_inputs_tool_inputs_and_results(
    service: Service, loom_paths: Path, settings: Any
) -> None:
    settings.LOOMSVC = replace(settings.LOOMSVC, max_value_bytes=3 * 1024 * 1024)
    text = "x" * (2 * 1024 * 1024)
    models = "class Output(BaseModel):\n    outcome: str\n    text: str\n\nclass Input(BaseModel):\n    text: str\n"
    loom = make_agent_loom(loom_paths, "large", models + ANY, tools=("take",), top="input: code:Input\n")
    agent = waiting_agent(service, loom, text=text)
    assert agent.tool("take", value=text)["output"] == 1
    assert "receipt" in agent.complete(outcome="done", text=text)
