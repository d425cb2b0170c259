"""The programs of background agents: a caller's own, or an agent of a Loom (B2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from apps.agent_sessions.contracts.sessions import RunAgentRequest
from apps.agent_sessions.domain.programs import Program, ProgramAsset, ProgramSkill, ProgramTool
from apps.agent_sessions.runtime.fitting import check_schema
from apps.agent_sessions.services.search_tools import search_tools
from apps.core import conf
from apps.core.errors import Issue
from apps.looms.domain.graph import AgentStepSpec
from apps.looms.loaded import AgentTask, LoadedLoom
from apps.looms.services.catalog import LoomStatus, current

_INSTRUCTIONS = "Work on the input you are given, and answer with the result."


@dataclass(frozen=True, slots=True)
class LoomAgent:
    """An agent of a Loom, at the first Step that it has."""

    loom: LoadedLoom
    stage: str
    step: str
    task: AgentTask


def own_program(request: RunAgentRequest) -> tuple[Program, list[Issue]]:
    """A program of the caller's, with the typed search Tools; and what is wrong with its schema."""
    issues = []
    if request.output_schema is not None:
        found = check_schema(request.output_schema, max_bytes=conf.settings().max_value_bytes)
        issues = [Issue(issue.code, f"/output_schema{issue.path}", issue.suggestion) for issue in found]
    program = Program(
        model=request.model,
        instructions=request.instructions or _INSTRUCTIONS,
        tools=tuple(tool.declared for tool in search_tools()),
        output_schema=request.output_schema,
    )
    return program, issues


def find_loom_agent(name: str) -> LoomAgent | Issue:
    """The agent that ``loomName/agentId`` names in the Loom's newest Release; else what is wrong with the name."""
    loom_name, _, agent_id = name.partition("/")
    entry = current(loom_name)
    if entry is None:
        return Issue("choice", "/agent", f"There is no Loom {loom_name}; list_looms shows those there are.")
    if entry.loom is None or entry.status is LoomStatus.INVALID:
        return Issue("choice", "/agent", f"Loom {loom_name} does not load at present; list_looms shows why.")
    found = agent_in(entry.loom, agent_id)
    if found is None:
        ids = ", ".join(dict.fromkeys(task.agent_id for task in entry.loom.agents.values())) or "none"
        return Issue("choice", "/agent", f"Loom {loom_name} has no agent {agent_id}; its agents: {ids}.")
    return found


def agent_in(loom: LoadedLoom, agent_id: str) -> LoomAgent | None:
    """The agent of this id, as the first of its Steps in the order of the file has it."""
    for stage in loom.graph.stages.values():
        for step in stage.steps.values():
            if isinstance(step, AgentStepSpec) and loom.agents[stage.name, step.name].agent_id == agent_id:
                return LoomAgent(loom, stage.name, step.name, loom.agents[stage.name, step.name])
    return None


def program_from(form: dict[str, Any]) -> Program:
    """The program that a stored canonical form is of."""
    return Program(
        model=form["model"],
        instructions=form["instructions"],
        skills=tuple(
            ProgramSkill(
                skill["name"],
                skill["description"],
                skill["content"],
                tuple(
                    ProgramAsset(asset["id"], asset["name"], asset["size"], asset["sha256"])
                    for asset in skill["assets"]
                ),
            )
            for skill in form["skills"]
        ),
        tools=tuple(
            ProgramTool(tool["id"], tool["description"], tool["inputSchema"], tool["outputSchema"], tool["isEndTool"])
            for tool in form["tools"]
        ),
        output_schema=form["outputSchema"],
    )
