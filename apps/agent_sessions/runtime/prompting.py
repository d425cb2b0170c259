"""The words that a model is given: instructions, Skills, and how the work ends."""

from __future__ import annotations

from typing import Any

from apps.agent_sessions.domain.programs import Program
from apps.core import json_text


def system_text(program: Program, *, submit: str | None) -> str:
    """Everything that stays the same for one program."""
    parts = [program.instructions.strip()]
    for skill in program.skills:
        lines = [f"# Skill: {skill.name}", skill.description, skill.content.strip()]
        if skill.assets:
            listed = ", ".join(f"{asset.id} ({asset.size} bytes)" for asset in skill.assets)
            lines.append(f"Its files, by id: {listed}")
        parts.append("\n\n".join(lines))
    ends = [tool.id for tool in program.tools if tool.is_end_tool]
    if ends:
        parts.append(f"Once {' or '.join(ends)} has completed, no other Tool can be called: hand in the result.")
    if submit is not None:
        parts.append(f"Hand in the result by calling {submit}; what you write besides is not read.")
    return "\n\n".join(part for part in parts if part)


def user_text(given: Any) -> str:
    """The input as a message."""
    return given if isinstance(given, str) else json_text.dumps(given)
