"""The JSON Schemas of a Tool, from the contracts of its Endpoint (N6)."""

from __future__ import annotations

from typing import Any

from apps.core.endpoints import Endpoint
from apps.core.errors import ErrorCode

_ISSUE = {
    "type": "object",
    "properties": {
        "code": {"type": "string"},
        "path": {"type": "string", "description": "RFC 6901 pointer into the arguments."},
        "suggestion": {"type": "string"},
    },
    "required": ["code", "path", "suggestion"],
}
#: E1 and E3.
_ERROR = {
    "type": "object",
    "description": "A business error; correct every issue of `validation` before the next try.",
    "properties": {
        "code": {"type": "string", "enum": [code.value for code in ErrorCode]},
        "message": {"type": "string"},
        "retryable": {"type": "boolean"},
        "details": {"type": "object"},
        "validation": {
            "type": "object",
            "properties": {
                "contract": {"type": "string"},
                "issues": {"type": "array", "items": _ISSUE},
                "truncated": {"type": "boolean"},
            },
            "required": ["contract", "issues", "truncated"],
        },
    },
    "required": ["code", "message", "retryable"],
}
#: Members of a success that an error may bring along: the stored receipt and the Run's present view.
_ATTACHMENTS = ("receipt", "run")


def input_schema(endpoint: Endpoint[Any, Any]) -> dict[str, Any]:
    """The strict schema of the Tool's arguments."""
    schema: dict[str, Any] = endpoint.input.wire_schema()
    return schema


def output_schema(endpoint: Endpoint[Any, Any]) -> dict[str, Any]:
    """``structuredContent`` of a success or of an error: clients check the one as well as the other.

    The shared definitions move to the root, where every ``#/$defs/…`` of both branches finds them.
    """
    success: dict[str, Any] = endpoint.output.wire_schema("serialization")
    definitions: dict[str, Any] = success.pop("$defs", {})
    # A shape that holds itself is a definition too, and the root only points at it.
    declared = definitions.get(success.get("$ref", "").removeprefix("#/$defs/"), success)
    members = declared.get("properties", {})
    attachments = {name: members[name] for name in _ATTACHMENTS if name in members}
    error: dict[str, Any] = {"type": "object", "properties": {"error": _ERROR, **attachments}, "required": ["error"]}
    if endpoint.error_form is not None:
        error = endpoint.error_form.shape.wire_schema("serialization")
        definitions = {**definitions, **error.pop("$defs", {})}
    schema: dict[str, Any] = {"type": "object", "anyOf": [success, error]}
    if definitions:
        schema["$defs"] = definitions
    return schema
