"""The Tool through which a model hands in its output."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from pydantic_ai.tools import ToolDefinition

_NAME = "submit_result"
_MEMBER = "result"


@dataclass(frozen=True, slots=True)
class Submission:
    """``wrapped``: providers want an object, so any other output is the one member of one."""

    name: str
    schema: dict[str, Any]
    wrapped: bool

    def definition(self) -> ToolDefinition:
        """As it is declared to the model."""
        return ToolDefinition(
            name=self.name,
            description="Hand in the final result. Call it once, when the work is done.",
            parameters_json_schema=self.schema,
            strict=False,
        )

    def arguments(self, output: Any) -> dict[str, Any]:
        """What the Tool is called with to hand in ``output``."""
        return {_MEMBER: output} if self.wrapped else output

    def output(self, arguments: dict[str, Any]) -> Any:
        """What was handed in."""
        return arguments.get(_MEMBER) if self.wrapped else arguments


def submission_for(schema: dict[str, Any], *, taken: Collection[str]) -> Submission:
    """The Tool for an output schema; its name is none of ``taken``."""
    name = _NAME
    while name in taken:
        name += "_"
    if schema.get("type") == "object":
        return Submission(name, schema, wrapped=False)
    definitions: dict[str, Any] = {key: schema[key] for key in ("$defs", "definitions") if key in schema}
    inner = {key: value for key, value in schema.items() if key not in definitions}
    wrapper = {"type": "object", "properties": {_MEMBER: inner}, "required": [_MEMBER], "additionalProperties": False}
    return Submission(name, {**wrapper, **definitions}, wrapped=True)
