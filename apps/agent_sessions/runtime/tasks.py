"""A Loom's agent as a program: the same for a background agent and for an Agent Step (B2, B8)."""

from __future__ import annotations

from typing import Any

from apps.agent_sessions.domain.programs import Program, ProgramAsset, ProgramSkill, ProgramTool
from apps.agent_sessions.runtime.ended import ToolRefused
from apps.looms.loaded import MAX_ASSET_BYTES, AgentTask, Asset

_READ_FILE = "read_skill_file"


def program_of(task: AgentTask, *, model: str) -> Program:
    """What the model is given.  Where Skills have files, a Tool to read them comes with it."""
    tools = [
        ProgramTool(
            tool.id, tool.description, tool.input_schema, tool.output_schema, is_end_tool=tool.id == task.end_tool
        )
        for tool in task.tools
    ]
    skills = tuple(
        ProgramSkill(skill.name, skill.description, skill.content, tuple(_asset(one) for one in skill.assets))
        for skill in task.skills
    )
    if any(skill.assets for skill in skills):
        tools.append(_file_tool(file_tool_id(task)))
    return Program(
        model=model,
        instructions=task.instructions,
        skills=skills,
        tools=tuple(tools),
        output_schema=task.output_schema(),
    )


def _asset(asset: Asset) -> ProgramAsset:
    return ProgramAsset(asset.id, asset.name, asset.size, asset.sha256)


def file_tool_id(task: AgentTask) -> str:
    """The id of the Tool that reads files of Skills; none of the agent's own."""
    name = _READ_FILE
    while task.tool(name) is not None:
        name += "_"
    return name


def _file_tool(tool_id: str) -> ProgramTool:
    return ProgramTool(
        tool_id,
        "Read a file of one of your Skills by its id.",
        {
            "type": "object",
            "properties": {"id": {"type": "string", "description": "The file's id, as the Skill names it."}},
            "required": ["id"],
            "additionalProperties": False,
        },
        {
            "type": "object",
            "properties": {
                "id": {"type": "string"},
                "encoding": {"enum": ["utf8", "base64"]},
                "content": {"type": "string"},
            },
            "required": ["id", "encoding", "content"],
        },
    )


def read_skill_file(task: AgentTask, arguments: dict[str, Any]) -> dict[str, Any]:
    """A file of the task's Skills.  Raises :class:`ToolRefused`."""
    assets = {asset.id: asset for skill in task.skills for asset in skill.assets}
    asset = assets.get(str(arguments.get("id")))
    if asset is None or set(arguments) != {"id"}:
        raise ToolRefused(f"Send the `id` of one of these files: {', '.join(assets)}.")
    if asset.size > MAX_ASSET_BYTES:
        raise ToolRefused(f"This file has {asset.size} bytes; at most {MAX_ASSET_BYTES} are read at once.")
    encoding, content = asset.encoded()
    return {"id": asset.id, "encoding": encoding, "content": content}
