"""A graph to look at: Mermaid text, and a tree for the terminal."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from rich.markup import escape
from rich.tree import Tree

from apps.looms.domain.durations import format_duration
from apps.looms.domain.graph import DEFAULT_MAX_VISITS, AgentStepSpec, CodeStepSpec, LoomGraph, StageSpec, StepSpec
from apps.looms.domain.names import END
from apps.looms.messages import printable


class Mark(enum.StrEnum):
    """How a Step is lit."""

    #: Something came by here and went on.
    VISITED = "visited"
    #: Something stands here.
    CURRENT = "current"
    #: Something ended here that should not have.
    FAILED = "failed"


#: The sign says without colour what the colour says: sign, terminal style, Mermaid class.
_LOOKS = {
    Mark.VISITED: ("✓", "green", "fill:#e6f4ea,stroke:#188038,color:#000"),
    Mark.CURRENT: ("▶", "bold blue", "fill:#fff3c4,stroke:#b26a00,stroke-width:3px,color:#000"),
    Mark.FAILED: ("✗", "bold red", "fill:#fce8e6,stroke:#d93025,stroke-width:3px,color:#000"),
}


#: Where a Run stands without running, the sign is that of its status.
_SIGNS = {"waiting": "?", "paused": "‖", "queued": "…", "cancelled": "⊘"}


@dataclass(frozen=True, slots=True)
class StepMark:
    """What a picture says of a Step beside what it declares: how it is lit, how often visited, and a word more."""

    kind: Mark
    visits: int
    note: str = ""

    @property
    def words(self) -> str:
        times = "1 visit" if self.visits == 1 else f"{self.visits} visits"
        return f"{_SIGNS.get(self.note, _LOOKS[self.kind][0])} " + ", ".join(
            part for part in (self.note, times) if part
        )


#: (Stage, Step) → its mark.
Marks = Mapping[tuple[str, str], StepMark]
_NOTHING: Marks = {}


def _label(text: str) -> str:
    """Text inside a quoted Mermaid label: nothing in it can end the label or start markup."""
    codes = {'"': "#quot;", "<": "#lt;", ">": "#gt;", "&": "#amp;", "#": "#35;", "`": "#96;", "|": "#124;"}
    return "".join(codes.get(character, character) for character in text)


def mermaid(graph: LoomGraph, marks: Marks = _NOTHING) -> str:
    """A Mermaid flowchart: a box a Stage, Steps inside (agents rounded), outcomes on the edges, marks as classes."""
    return "\n".join([*_mermaid_lines(graph, marks), *_mermaid_classes(graph, marks)]) + "\n"


def _mermaid_lines(graph: LoomGraph, marks: Marks) -> Iterator[str]:
    yield "flowchart TD"
    yield '  start(["start"])'
    yield '  finish(["end"])'
    for stage in graph.stages.values():
        yield f'  subgraph stage_{stage.name}["{_label(stage.name)}"]'
        for step in stage.steps.values():
            left, right = ("(", ")") if isinstance(step, AgentStepSpec) else ("[", "]")
            mark = marks.get((stage.name, step.name))
            more = f"<br>{_label(printable(mark.words))}" if mark else ""
            yield f'    {stage.name}__{step.name}{left}"{_label(step.name)}{more}"{right}'
        yield "  end"
    yield f"  start --> {graph.entry}__{graph.stages[graph.entry].entry}"
    for stage in graph.stages.values():
        for step in stage.steps.values():
            for outcome, target in step.on.items():
                after = _node(graph, stage, outcome, target)
                yield f'  {stage.name}__{step.name} -- "{_label(outcome)}" --> {after}'


def _mermaid_classes(graph: LoomGraph, marks: Marks) -> Iterator[str]:
    for kind, (_, _, style) in _LOOKS.items():
        lit = [
            f"{stage.name}__{step}"
            for stage in graph.stages.values()
            for step in stage.steps
            if (mark := marks.get((stage.name, step))) and mark.kind is kind
        ]
        if lit:
            yield f"  classDef {kind.value} {style}"
            yield f"  class {','.join(lit)} {kind.value}"


def _node(graph: LoomGraph, stage: StageSpec, outcome: str, target: str) -> str:
    if target != END:
        return f"{stage.name}__{target}"
    following = stage.on[outcome]
    return "finish" if following == END else f"{following}__{graph.stages[following].entry}"


def tree(graph: LoomGraph, marks: Marks = _NOTHING) -> Tree:
    """Stages, Steps, what they declare, and routes, for a terminal; in the words of ``loom.yaml``."""
    exclusive = " [dim](exclusive)[/]" if graph.exclusive else ""
    root = Tree(f"[bold]{graph.loom}[/] {escape(printable(graph.title))}{exclusive}")
    for stage in graph.stages.values():
        branch = root.add(f"Stage [bold cyan]{stage.name}[/]{_entry(stage.name == graph.entry)}")
        for step in stage.steps.values():
            lit = _lit(marks.get((stage.name, step.name)))
            leaf = branch.add(f"{_step(step)}{_entry(step.name == stage.entry)}{lit}")
            declared = "; ".join(_declared(step))
            if declared:
                leaf.add(f"[dim]{escape(declared)}[/]")
            for outcome, target in step.on.items():
                leaf.add(f"{escape(outcome)} → {escape(target)}")
        for outcome, target in stage.on.items():
            branch.add(f"[dim]on[/] {escape(outcome)} → {escape(target)}")
    return root


def _entry(is_entry: bool) -> str:
    return " [dim](entry)[/]" if is_entry else ""


def _lit(mark: StepMark | None) -> str:
    return f"  [{_LOOKS[mark.kind][1]}]{escape(printable(mark.words))}[/]" if mark else ""


def _step(step: StepSpec) -> str:
    if isinstance(step, AgentStepSpec):
        return f"agent [bold magenta]{step.name}[/] ({escape(step.agent)})"
    return f"code [bold green]{step.name}[/] ({escape(step.code)})"


def _declared(step: StepSpec) -> Iterator[str]:
    """What differs from the defaults."""
    if isinstance(step, AgentStepSpec) and step.model is not None:
        yield f"model {step.model}"
    if step.timeout_seconds is not None:
        yield f"timeout {format_duration(step.timeout_seconds)}"
    if isinstance(step, CodeStepSpec):
        if step.retry is not None:
            errors = "" if step.retry.errors is None else f" on {', '.join(step.retry.errors)}"
            backoff = format_duration(step.retry.backoff_seconds)
            yield f"retry {step.retry.attempts} attempts{errors}, backoff {backoff}"
        if step.rerun_on_interrupt:
            yield "on_interrupt rerun"
    if step.max_visits != DEFAULT_MAX_VISITS:
        yield f"max_visits {step.max_visits}"
