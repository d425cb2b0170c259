"""YAML 1.2 with the place of everything: values, lines, and keys that were named twice."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from apps.looms.diagnostics import Diagnostic

#: More than any Loom needs; aliases that multiply are cut off here.
MAX_NODES = 20_000
MAX_DEPTH = 40

Path = tuple[str | int, ...]


@dataclass(frozen=True)
class Document:
    """The plain value, and the line (from 1) of each path in it: of its key, or of the list item."""

    value: Any
    lines: dict[Path, int] = field(repr=False)

    def line(self, path: Path) -> int:
        """The line of ``path``, or of the nearest place above it that is there."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)


class _TooMuch(Exception):
    pass


class _Reader:
    def __init__(self, yaml: YAML, file: str, first_line: int) -> None:
        self.yaml = yaml
        self.file = file
        self.first_line = first_line
        self.lines: dict[Path, int] = {}
        self.problems: list[Diagnostic] = []
        self.visited = 0

    def line(self, node: Node) -> int:
        return int(node.start_mark.line) + self.first_line

    def read(self, node: Node, path: Path) -> Any:
        self.visited += 1
        if self.visited > MAX_NODES or len(path) > MAX_DEPTH:
            raise _TooMuch
        self.lines.setdefault(path, self.line(node))
        if isinstance(node, MappingNode):
            return self.mapping(node, path)
        if isinstance(node, SequenceNode):
            return [self.read(child, (*path, index)) for index, child in enumerate(node.value)]
        return self.scalar(node)

    def mapping(self, node: MappingNode, path: Path) -> dict[str, Any]:
        out: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = self.scalar(key_node) if isinstance(key_node, ScalarNode) else None
            line = self.line(key_node)
            if not isinstance(key, str):
                shown = str(key_node.value)[:40] if isinstance(key_node, ScalarNode) else "written here"
                self.note(line, f"The key {shown} is no text.", "Write it in quotes.")
                continue
            if key in out:
                first = self.lines[(*path, key)]
                self.note(line, f"The key `{key}` stands here twice (first in line {first}).", "Keep one of them.")
                continue
            self.lines[(*path, key)] = line
            out[key] = self.read(value_node, (*path, key))
        return out

    def note(self, line: int, message: str, suggestion: str) -> None:
        self.problems.append(Diagnostic.error(self.file, line, message, suggestion))

    def scalar(self, node: Node) -> Any:
        value = self.yaml.constructor.construct_object(node, deep=True)
        # YAML 1.2 has no dates: what looks like one is a text.
        return str(node.value) if isinstance(value, dt.date) else value


def read_yaml(text: str, file: str, *, first_line: int = 1) -> tuple[Document | None, list[Diagnostic]]:
    """Read one document.  ``first_line`` is the line of the file at which ``text`` begins."""
    yaml = YAML(typ="safe", pure=True)
    reader = _Reader(yaml, file, first_line)
    try:
        node = yaml.compose(text)
        if node is None:
            return Document({}, {(): first_line}), []
        value = reader.read(node, ())
    except (_TooMuch, RecursionError):
        reader.note(first_line, "It holds more, or nests deeper, than a Loom may.", "Remove anchors and nesting.")
        return None, reader.problems
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = first_line if mark is None else int(mark.line) + first_line
        problem = str(error.problem or error.context or "it cannot be read").rstrip(".")
        is_tab = "character '\\t'" in problem
        hint = "Indent with spaces, not with tabs." if is_tab else "Check indentation, colons and quotes."
        reader.note(line, f"This is no valid YAML: {problem}.", hint)
        return None, reader.problems
    except (YAMLError, ValueError) as error:
        problem = str(error).splitlines()[0] if str(error) else type(error).__name__
        reader.note(first_line, f"This is no valid YAML: {problem}.", "Check the characters used.")
        return None, reader.problems
    return Document(value, reader.lines), reader.problems


def read_front_matter(text: str, file: str) -> tuple[Document | None, str, list[Diagnostic]]:
    """The YAML between the first two ``---`` lines of a Markdown file, and the text after it."""
    lines = list(_lines(text))
    if not lines or lines[0].strip() != "---":
        hint = "Begin the file with ---, then `name: …` and `description: …`, then --- again."
        return None, text, [Diagnostic.error(file, 1, "The front matter is missing.", hint)]
    for index, line in enumerate(lines[1:], start=1):
        if line.strip() == "---":
            document, problems = read_yaml("".join(lines[1:index]), file, first_line=2)
            return document, "".join(lines[index + 1 :]).strip(), problems
    return None, "", [Diagnostic.error(file, 1, "The front matter does not end.", "Close it with a line ---.")]


def _lines(text: str) -> Iterator[str]:
    yield from text.removeprefix("\ufeff").splitlines(keepends=True)
