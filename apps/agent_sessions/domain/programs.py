"""Programs: everything that a model is given to reason with, in one canonical form (contract section 10, B3, B8)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from apps.core import json_text


@dataclass(frozen=True, slots=True)
class ProgramAsset:
    """A file of a Skill.  ``sha256`` is over its bytes, 64 hex digits; ``size`` is in bytes."""

    id: str
    name: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class ProgramSkill:
    """Instructions that a model may draw on."""

    name: str
    description: str
    content: str
    assets: tuple[ProgramAsset, ...] = ()


@dataclass(frozen=True, slots=True)
class ProgramTool:
    """A Tool that a model may call; the schemas are JSON Schema.  An end Tool closes the others (A6)."""

    id: str
    description: str
    input_schema: dict[str, Any]
    output_schema: dict[str, Any]
    is_end_tool: bool = False


@dataclass(frozen=True, slots=True)
class Program:
    """What a model is asked to do.  ``output_schema`` is JSON Schema; without one the output is a text."""

    model: str
    instructions: str
    skills: tuple[ProgramSkill, ...] = ()
    tools: tuple[ProgramTool, ...] = ()
    output_schema: dict[str, Any] | None = None


def canonical_form(program: Program) -> dict[str, Any]:
    """The program as JSON.  Skills and Tools keep their order, for a model reads them in it."""
    return {
        "model": program.model,
        "instructions": program.instructions,
        "skills": [
            {
                "name": skill.name,
                "description": skill.description,
                "content": skill.content,
                "assets": [
                    {"id": one.id, "name": one.name, "size": one.size, "sha256": one.sha256} for one in skill.assets
                ],
            }
            for skill in program.skills
        ],
        "tools": [
            {
                "id": tool.id,
                "description": tool.description,
                "inputSchema": tool.input_schema,
                "outputSchema": tool.output_schema,
                "isEndTool": tool.is_end_tool,
            }
            for tool in program.tools
        ],
        "outputSchema": program.output_schema,
    }


def program_digest(program: Program) -> str:
    """SHA-256 over the canonical form (RFC 8785), 64 hex digits."""
    return json_text.digest(canonical_form(program))
