"""Prompts: one for each ready Loom, by which a person has an agent start it and see it through (N5)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from apps.core import json_text
from apps.core.caller import Caller
from apps.core.contracts import Contract
from apps.core.errors import Issue, LoomError, invalid_request
from apps.looms.contracts import LoomSummary
from apps.mcp import resources

INPUT = "input"
#: A longer schema is not repeated but pointed at.
_MOST_OF_A_SCHEMA = 2000
_NO_INPUT = "Your human gave no input yet: ask for what it needs before you start."


class Arguments(Contract):
    """What a prompt takes."""

    input: str | None = None


def listed(caller: Caller) -> dict[str, Any]:
    """The result of ``prompts/list``."""
    return {"prompts": [_listed(loom) for loom in _ready(caller)]}


def get(caller: Caller, name: str, arguments: Mapping[str, str], *, tools: Collection[str]) -> dict[str, Any]:
    """The result of ``prompts/get`` at an Entry that has ``tools``; raises :class:`LoomError`."""
    loom = find(caller, name, place="/name")
    given = _input(arguments)
    words = f"The input, as your human gave it:\n\n{given}" if given else _NO_INPUT
    return {
        "description": loom.description or loom.title,
        "messages": [_message("\n".join(_steps(loom, tools))), _message(words)],
    }


def find(caller: Caller, name: str, *, place: str) -> LoomSummary:
    """The ready Loom whose prompt has that name; raises :class:`LoomError`, which points at ``place``."""
    loom = next((loom for loom in _ready(caller) if loom.loom_name == name), None)
    if loom is None:
        hint = "No ready Loom has that name; see prompts/list, and list_looms for what is wrong with others."
        raise invalid_request("prompts/get", [Issue("choice", place, hint)])
    return loom


def _input(arguments: Mapping[str, Any]) -> str:
    try:
        return (Arguments.parse(arguments).input or "").strip()
    except LoomError as error:
        issues = [Issue(issue.code, f"/arguments{issue.path}", issue.suggestion) for issue in error.issues]
        raise invalid_request("prompts/get", issues) from None


def _ready(caller: Caller) -> list[LoomSummary]:
    return [loom for loom in resources.looms(caller) if loom.status == "ready"]


def _listed(loom: LoomSummary) -> dict[str, Any]:
    argument = {
        "name": INPUT,
        "title": "Input",
        "description": f"{_shape(loom)} Your own words will do.",
        "required": False,
    }
    return {
        "name": loom.loom_name,
        "title": loom.title,
        "description": loom.description or f"Start {loom.title} and see it through.",
        "arguments": [argument],
    }


def _shape(loom: LoomSummary) -> str:
    if loom.input_schema is None:
        return "Any JSON or text that is not blank."
    schema = json_text.dumps(loom.input_schema)
    if len(schema) > _MOST_OF_A_SCHEMA:
        return f"JSON that fits inputSchema of {resources.LOOM.uri_of(loom.loom_name)} (list_looms has it too)."
    return f"JSON that fits {schema}."


def _steps(loom: LoomSummary, tools: Collection[str]) -> Iterator[str]:
    """What the agent is to do, with the Tools that the Entry has."""
    agents = any(step.kind == "agent" for stage in loom.stages for step in stage.steps)
    yield f"Run the Loom {loom.loom_name} ({loom.title}) with the Tools of loomsvc and see it through."
    yield ""
    ready = " This Loom has Agent Steps: where ready is false, tell your human why and stop." if agents else ""
    yield f"1. status: keep service.instanceId.{ready}"
    yield (
        f"2. run: loomName {json_text.dumps(loom.loom_name)}, input, serviceInstanceId, and a new UUID as operationId. "
        "Make the input of what your human said, and invent nothing. After a lost answer send the same again; correct "
        f"what error.validation lists. What input takes: {_shape(loom)}"
    )
    yield "3. get_run with run.runId, again and again, until it is completed, failed or cancelled. While it is waiting:"
    yield (
        "   - pendingAction: put it to your human with interact, or show it and pass on their words with answer_ask. "
        "Never answer for them."
    )
    if agents and "claim_agent_call" in tools:
        yield (
            "   - pendingAgentCall: a task for you. claim_agent_call, do what it says with call_agent_tool, and end it "
            "with complete_agent_call."
        )
    yield ("4. Tell your human the outcome, or lastError. get_artifact and get_record read what run.results names.")


def _message(text: str) -> dict[str, Any]:
    return {"role": "user", "content": {"type": "text", "text": text}}
