"""Whether a graph hangs together: entries, routes, and that everything can be reached (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from apps.looms.checking.yaml_tree import Document, Path
from apps.looms.diagnostics import Diagnostic, did_you_mean
from apps.looms.domain.graph import AgentStepSpec, LoomGraph, StageSpec
from apps.looms.domain.names import END, LOOM_FILE


def check_graph(graph: LoomGraph, document: Document) -> list[Diagnostic]:
    """Everything wrong with the graph's edges, in the order of the file."""
    found = [*_stages(graph, document)]
    for stage in graph.stages.values():
        found += _stage(stage, document)
    return sorted(found, key=lambda diagnostic: diagnostic.line or 0)


def reachable(entry: str, routes: Mapping[str, Iterable[str]]) -> set[str]:
    """Every name that ``entry`` leads to, itself included; unknown names are left out."""
    seen: set[str] = set()
    todo = [entry] if entry in routes else []
    while todo:
        name = todo.pop()
        if name not in seen:
            seen.add(name)
            todo += [target for target in routes[name] if target in routes]
    return seen


def _error(document: Document, path: Path, message: str, suggestion: str) -> Diagnostic:
    return Diagnostic.error(LOOM_FILE, document.line(path), message, suggestion)


def _stages(graph: LoomGraph, document: Document) -> Iterator[Diagnostic]:
    routes = {name: list(stage.on.values()) for name, stage in graph.stages.items()}
    if graph.entry not in graph.stages:
        hint = did_you_mean(graph.entry, graph.stages)
        yield _error(document, ("entry",), f"The entry `{graph.entry}` is no Stage of this Loom.", hint)
    for name, stage in graph.stages.items():
        for outcome, target in stage.on.items():
            path = ("stages", name, "on", outcome)
            if target == name:
                message = f"Stage `{name}` routes `{outcome}` to itself."
                yield _error(document, path, message, "Route the outcome between its Steps instead.")
            elif target != END and target not in graph.stages:
                message = f"Stage `{name}` routes `{outcome}` to `{target}`, which is no Stage."
                yield _error(document, path, message, did_you_mean(target, [*graph.stages, END]))
    if graph.entry in graph.stages:
        for name in graph.stages.keys() - reachable(graph.entry, routes):
            message = f"Stage `{name}` cannot be reached from `{graph.entry}`."
            yield _error(document, ("stages", name), message, f"Route a Stage's outcome to `{name}`, or remove it.")


def _stage(stage: StageSpec, document: Document) -> Iterator[Diagnostic]:
    top: Path = ("stages", stage.name)
    if (stage.state is None) != (stage.initialize is None):
        have, lack = ("state", "initialize") if stage.initialize is None else ("initialize", "state")
        yield _error(document, (*top, have), f"Stage `{stage.name}` has `{have}` without `{lack}`.", f"Add `{lack}:`.")
    if stage.entry not in stage.steps:
        message = f"The entry `{stage.entry}` is no Step of Stage `{stage.name}`."
        yield _error(document, (*top, "entry"), message, did_you_mean(stage.entry, stage.steps))
    for step in stage.steps.values():
        path = (*top, "steps", step.name)
        for outcome, target in step.on.items():
            if target != END and target not in stage.steps:
                message = f"Step `{step.name}` routes `{outcome}` to `{target}`, which is no Step of `{stage.name}`."
                yield _error(document, (*path, "on", outcome), message, did_you_mean(target, [*stage.steps, END]))
        if isinstance(step, AgentStepSpec) and step.end_tool is not None and step.end_tool not in step.tools:
            message = f"`end_tool` of Step `{step.name}` is none of its `tools`."
            yield _error(document, (*path, "end_tool"), message, did_you_mean(step.end_tool, step.tools))
    yield from _ends(stage, document)


def _ends(stage: StageSpec, document: Document) -> Iterator[Diagnostic]:
    """Unreachable Steps, outcomes that leave the Stage without a route, routes that nothing takes."""
    top: Path = ("stages", stage.name)
    routes = {name: list(step.on.values()) for name, step in stage.steps.items()}
    if stage.entry in stage.steps:
        for name in stage.steps.keys() - reachable(stage.entry, routes):
            message = f"Step `{name}` cannot be reached from `{stage.entry}`."
            hint = f"Route an outcome to `{name}`, or remove it."
            yield _error(document, (*top, "steps", name), message, hint)
    leaving: dict[str, Path] = {}
    for name, step in stage.steps.items():
        for outcome, target in step.on.items():
            if target == END:
                leaving.setdefault(outcome, (*top, "steps", name, "on", outcome))
    for outcome in leaving.keys() - stage.on.keys():
        message = f"Stage `{stage.name}` has no route for `{outcome}`, with which a Step ends it."
        yield _error(document, leaving[outcome], message, f"Add `{outcome}: end` to the Stage's `on`.")
    for outcome in stage.on.keys() - leaving.keys():
        message = f"No Step ends Stage `{stage.name}` with `{outcome}`."
        hint = did_you_mean(outcome, leaving)
        yield Diagnostic.warning(LOOM_FILE, document.line((*top, "on", outcome)), message, hint)
