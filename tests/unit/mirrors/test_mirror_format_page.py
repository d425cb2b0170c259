"""The page on the format says what the code takes, so that another reader can be made from it."""

from __future__ import annotations

import re
import types
import typing
from pathlib import Path
from typing import Any

import pytest
from pydantic.alias_generators import to_camel

from apps.core.contracts import Contract
from apps.mirrors.bundles import lines

PAGE = (Path(__file__).parents[3] / "docs/reference/mirror-format.md").read_text()


def _inner(annotation: Any) -> list[type[Contract]]:
    """The shapes inside an annotation."""
    if isinstance(annotation, type) and issubclass(annotation, Contract):
        return [annotation]
    return [shape for one in typing.get_args(annotation) for shape in _inner(one)]


def _nullable(shape: type[Contract]) -> set[str]:
    found: set[str] = set()
    for name, field in shape.model_fields.items():
        union = isinstance(field.annotation, types.UnionType) or typing.get_origin(field.annotation) is typing.Union
        if union and type(None) in typing.get_args(field.annotation):
            found.add(to_camel(name))
        for inner in _inner(field.annotation):
            found |= _nullable(inner)
    return found


def _row(text: str, begins: str) -> set[str]:
    (row,) = (line for line in text.splitlines() if line.startswith(f"| `{begins}` |"))
    return set(re.findall(r"`(\w+)`", row.split("|", 2)[2]))


@pytest.mark.rule("M1")
def test_the_page_names_each_member_that_may_be_null() -> None:
    table = PAGE[PAGE.index("These may be `null`") :].split("\n## ")[0]
    shapes = {**lines.SHAPES, "manifest.json": lines.Manifest}
    for name, shape in shapes.items():
        if nullable := _nullable(shape):
            assert _row(table, name) == nullable, name
        else:
            assert f"| `{name}` |" not in table


@pytest.mark.rule("M1")
def test_the_page_names_each_member_of_each_line() -> None:
    for name, shape in lines.SHAPES.items():
        if name == "run.jsonl":
            said = set(
                re.findall(r"`(\w+)[`,}]|[{ ](\w+)[,}]", PAGE[PAGE.index("### `run.jsonl`") :].split("### The")[0])
            )
            named = {one or other for one, other in said}
            members = {to_camel(field) for field in shape.model_fields}
            for inner in (lines.Held, lines.Execution, lines.Origin, lines.Ancestor, lines.Dependency):
                members |= {to_camel(field) for field in inner.model_fields}
            assert members <= named | {"held"}, members - named
        else:
            table = PAGE[PAGE.index("### The others") :].split("\n## ")[0]
            assert {to_camel(field) for field in shape.model_fields} <= _row(table, name), name
