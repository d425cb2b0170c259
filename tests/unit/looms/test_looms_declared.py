"""The graph of a Release that nobody has checked: read if it holds together, else not at all."""

from __future__ import annotations

import pytest

from apps.looms.services.declared import declared_graph

GOOD = """
loom: letter
title: Letter
description: Writes.
entry: write
stages:
  write:
    entry: draft
    steps:
      draft: {code: "steps:draft", on: {done: end}}
    on: {done: end}
"""


def test_a_graph_that_holds_together_is_read_without_its_code() -> None:
    graph = declared_graph({"loom.yaml": GOOD.encode()})
    assert graph is not None
    assert list(graph.stages["write"].steps) == ["draft"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\x00",
        "loom: [",
        "&a [*a, *a]",
        GOOD.replace("entry: write", "entry: nowhere"),
        GOOD.replace("entry: draft", "entry: nothing"),
        GOOD.replace("{done: end}}", "{done: gone}}"),
        GOOD.replace("on: {done: end}\n", "on: {other: end}\n"),
        GOOD.replace("letter", "a/b"),
    ],
)
def test_anything_else_is_no_graph(text: str) -> None:
    assert declared_graph({"loom.yaml": text.encode()}) is None


def test_a_file_that_is_missing_or_no_text_is_no_graph() -> None:
    assert declared_graph({}) is None
    assert declared_graph({"loom.yaml": b"\xff\xfe"}) is None
