"""Agents, Skills and their assets: Markdown files with YAML front matter."""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from apps.looms.checking.symbols import Symbols
from apps.looms.checking.yaml_tree import Path, read_front_matter
from apps.looms.diagnostics import Diagnostic, did_you_mean
from apps.looms.domain.graph import AgentStepSpec
from apps.looms.loaded import AgentTask, Asset, Skill
from apps.looms.packages import PackageFiles

SKILL_FILE = "SKILL.md"


class _FrontMatter(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")

    name: Annotated[str, Field(min_length=1, max_length=200, pattern=r"\S")]
    description: Annotated[str, Field(min_length=1, max_length=2000, pattern=r"\S")]


def _markdown(files: PackageFiles, file: str, problems: list[Diagnostic]) -> tuple[_FrontMatter, str] | None:
    """Front matter and text of a file that is there; ``None`` when something has been reported."""
    try:
        text = files[file].decode("utf-8")
    except UnicodeDecodeError:
        problems.append(Diagnostic.error(file, None, "This is no UTF-8 text.", "Save it as UTF-8."))
        return None
    document, body, found = read_front_matter(text, file)
    problems += found
    if document is None or found:
        return None
    try:
        front = _FrontMatter.model_validate(document.value)
    except ValidationError as error:
        for detail in error.errors(include_url=False):
            key = str(detail["loc"][0]) if detail["loc"] else "the front matter"
            message, hint = f"`{key}`: {detail['msg'].lower()}.", "The front matter has `name` and `description`."
            if detail["type"] == "extra_forbidden":
                message, hint = f"`{key}` is no key of the front matter.", did_you_mean(key, _FrontMatter.model_fields)
            elif detail["type"] == "missing":
                message, hint = f"The front matter lacks `{key}`.", f"Add `{key}:`."
            problems.append(Diagnostic.error(file, document.line((key,)), message, hint))
        return None
    if not body:
        problems.append(Diagnostic.error(file, 1, "There are no instructions.", "Write them below the front matter."))
        return None
    return front, body


def _skill(name: str, path: Path, symbols: Symbols, files: PackageFiles) -> Skill | None:
    folder = f"skills/{name}/"
    if folder + SKILL_FILE not in files:
        known = sorted({file.split("/")[1] for file in files if file.startswith("skills/") and file.count("/") > 1})
        hint = did_you_mean(name, known, otherwise="Make this file.")
        symbols.report(path, f"There is no {folder}{SKILL_FILE} in this folder.", hint)
        return None
    read = _markdown(files, folder + SKILL_FILE, symbols.problems)
    if read is None:
        return None
    inside = [file for file in files if file.startswith(folder) and file != folder + SKILL_FILE]
    assets = tuple(Asset(file.removeprefix("skills/"), file.removeprefix(folder), files[file]) for file in inside)
    return Skill(read[0].name, read[0].description, read[1], assets)


def read_task(stage: str, spec: AgentStepSpec, symbols: Symbols, files: PackageFiles) -> AgentTask | None:
    """Everything that an Agent Step names; ``None`` when something has been reported."""
    path: Path = ("stages", stage, "steps", spec.name)
    file = f"agents/{spec.agent}.md"
    front = None
    if file not in files:
        known = [name[7:-3] for name in files if name.startswith("agents/") and name.endswith(".md")]
        hint = did_you_mean(spec.agent, known, otherwise="Make this file.")
        symbols.report((*path, "agent"), f"There is no {file} in this folder.", hint)
    else:
        front = _markdown(files, file, symbols.problems)
    skills = [_skill(name, (*path, "skills", i), symbols, files) for i, name in enumerate(spec.skills)]
    tools = [symbols.tool(name, (*path, "tools", i)) for i, name in enumerate(spec.tools)]
    ids = [tool.id for tool in tools if tool is not None]
    for doubled in sorted({one for one in ids if ids.count(one) > 1}):
        hint = "Give one another id: @tool(id=…)."
        symbols.report((*path, "tools"), f"Two Tools of Step `{spec.name}` have the id `{doubled}`.", hint)
    output = symbols.model(spec.output, (*path, "output"))
    if output is not None:
        _check_outcomes(spec, output, path, symbols)
    if front is None or output is None or None in skills or None in tools:
        return None
    end_tool = symbols.tool(spec.end_tool, (*path, "end_tool")) if spec.end_tool else None
    return AgentTask(
        agent_id=spec.agent,
        name=front[0].name,
        description=front[0].description,
        instructions=front[1],
        skills=tuple(skill for skill in skills if skill is not None),
        tools=tuple(tool for tool in tools if tool is not None),
        end_tool=None if end_tool is None else end_tool.id,
        output=output,
    )


def _check_outcomes(spec: AgentStepSpec, output: type[BaseModel], path: Path, symbols: Symbols) -> None:
    field = output.model_fields.get("outcome")
    if field is None or (field.alias or "outcome") != "outcome":
        hint = f'Add `outcome: Literal["{next(iter(spec.on))}"]` to it.'
        symbols.report((*path, "output"), f"`{spec.output}` carries no `outcome`.", hint)
        return
    outcomes = _literals(field.annotation)
    if outcomes is None:
        if field.annotation is not str:
            hint = "Make it a Literal of the Step's outcomes, or str."
            symbols.report((*path, "output"), f"`outcome` of `{spec.output}` is no text.", hint)
        return
    for outcome in outcomes:
        if outcome not in spec.on:
            message = f"Step `{spec.name}` has no route for `{outcome}`, an outcome of `{spec.output}`."
            symbols.report((*path, "on"), message, f"Add `{outcome}:` to `on`, or remove it from the model.")
    for outcome in spec.on:
        if outcome not in outcomes:
            message = f"Step `{spec.name}` routes `{outcome}`, which `{spec.output}` never has."
            symbols.report((*path, "on", outcome), message, did_you_mean(outcome, outcomes))


def _literals(annotation: Any) -> list[str] | None:
    """The texts of a ``Literal``; ``None`` for anything else."""
    if get_origin(annotation) is not Literal:
        return None
    values = list(get_args(annotation))
    return values if all(type(value) is str for value in values) else None
