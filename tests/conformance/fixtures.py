"""Tools that the conformance suite expects by name, declared as loomsvc declares its own.

Only those that a server without sampling, roots, images, audio and logging can have: what is
missing is listed in :mod:`tests.conformance.expected`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from apps.core.caller import Caller
from apps.core.contracts import Contract, Empty
from apps.core.endpoints import Endpoint, Kind
from apps.core.errors import ErrorCode, LoomError
from apps.mcp.elicitation import Action, Ask, Given, Interaction


class Said(Contract):
    text: str


class Message(Contract):
    message: str


class Contact(Contract):
    """Its schema is the suite's own, with keywords that none of our contracts needs."""

    name: str | None = None

    @classmethod
    def wire_schema(cls, mode: Any = "validation") -> dict[str, Any]:
        return {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "$defs": {
                "address": {
                    "$anchor": "addressDef",
                    "type": "object",
                    "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
                }
            },
            "properties": {
                "name": {"type": "string"},
                "address": {"$ref": "#/$defs/address"},
                "contactMethod": {"type": "string", "enum": ["phone", "email"]},
                "phone": {"type": "string"},
                "email": {"type": "string"},
            },
            "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
            "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
            "then": {"required": ["phone"]},
            "else": {"required": ["email"]},
            "additionalProperties": False,
        }


ENDPOINTS: list[Endpoint[Any, Any]] = []
INTERACTIONS: dict[str, Interaction] = {}


def _tool(name: str, handler: Any, takes: type[Contract] = Empty) -> None:
    ENDPOINTS.append(Endpoint(name, name, f"Serves the conformance suite as {name}.", takes, Said, handler, Kind.READ))


def _says(text: str) -> Any:
    return lambda _caller, _given: Said(text=text)


def _fails(_caller: Caller, _given: Contract) -> Said:
    raise LoomError(ErrorCode.CONFLICT, "This Tool always fails.")


def _asking_tool(name: str, *questions: Ask, takes: type[Contract] = Empty) -> None:
    """A Tool that asks one question after the other, each until it is answered or put away."""
    keys = [question.key for question in questions]

    def interaction(_caller: Caller, arguments: Any, given: Given | None) -> Said | Ask:
        said = takes.parse(arguments)
        if given is None:
            return _worded(questions[0], said)
        place = keys.index(given.key)
        if given.action is Action.ACCEPT:
            if not set(questions[place].required) <= set(given.content):
                return _worded(questions[place], said)
            if place + 1 < len(questions):
                return questions[place + 1]
        return Said(text=f"{given.action.value}: {json.dumps(dict(given.content))}")

    _tool(name, _says("This client shows no forms."), takes)
    INTERACTIONS[name] = interaction


def _worded(question: Ask, said: Contract) -> Ask:
    return (
        Ask(question.key, said.message, question.properties, question.required)
        if isinstance(said, Message)
        else question
    )


def _question(key: str, message: str, properties: Mapping[str, Mapping[str, Any]], *, optional: bool = False) -> Ask:
    return Ask(key, message, properties, () if optional else tuple(properties))


_TEXT = {"type": "string"}
_NAME = _question("user_name", "What is your name?", {"name": _TEXT})
_CONFIRM = _question("confirm", "Please confirm.", {"ok": {"type": "boolean"}})
_OPTIONS = ["option1", "option2", "option3"]


def _titled(first: str) -> list[dict[str, str]]:
    return [
        {"const": f"value{n}", "title": f"{word} {first}"} for n, word in enumerate(("First", "Second", "Third"), 1)
    ]


_tool("test_simple_text", _says("A simple text for the suite."))
_tool("test_logging_tool", _says("Nothing is logged to the client."))
_tool("test_error_handling", _fails)
_tool("json_schema_2020_12_tool", _says("Only its schema is looked at."), Contact)
_asking_tool("test_elicitation", _question("form", "", {"username": _TEXT, "email": _TEXT}), takes=Message)
_asking_tool("test_streaming_elicitation", _NAME)
_asking_tool(
    "test_elicitation_sep1034_defaults",
    _question(
        "form",
        "Please look through these.",
        {
            "name": {"type": "string", "default": "John Doe"},
            "age": {"type": "integer", "default": 30},
            "score": {"type": "number", "default": 95.5},
            "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
            "verified": {"type": "boolean", "default": True},
        },
        optional=True,
    ),
)
_asking_tool(
    "test_elicitation_sep1330_enums",
    _question(
        "form",
        "Please choose.",
        {
            "untitledSingle": {"type": "string", "enum": _OPTIONS},
            "titledSingle": {"type": "string", "oneOf": _titled("Option")},
            "legacyEnum": {
                "type": "string",
                "enum": ["opt1", "opt2", "opt3"],
                "enumNames": ["Option One", "Option Two", "Option Three"],
            },
            "untitledMulti": {"type": "array", "items": {"type": "string", "enum": _OPTIONS}},
            "titledMulti": {"type": "array", "items": {"anyOf": _titled("Choice")}},
        },
        optional=True,
    ),
)
_asking_tool("test_input_required_result_elicitation", _NAME)
_asking_tool("test_input_required_result_request_state", _CONFIRM)
_asking_tool("test_input_required_result_tampered_state", _CONFIRM)
_asking_tool(
    "test_input_required_result_multi_round",
    _question("step1", "Step 1: What is your name?", {"name": _TEXT}),
    _question("step2", "Step 2: What is your favourite colour?", {"color": _TEXT}),
)
