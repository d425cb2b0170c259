"""The layered layout: whatever the graph, nothing overlaps, nothing is left out, and it is always the same."""

from __future__ import annotations

from itertools import combinations, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.console.pictures.layout import Box, Layout, Link, back_links, lay_out

NAMES = [f"b{number}" for number in range(9)]


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[Box], list[Link]]:
    names = NAMES[: draw(st.integers(1, len(NAMES)))]
    size = st.integers(10, 90)
    boxes = [Box(name, draw(size), draw(size)) for name in names]
    pairs = draw(st.lists(st.tuples(st.sampled_from(names), st.sampled_from(names)), unique=True, max_size=16))
    links = [
        Link(f"{a} {b}", a, b, label_width=draw(st.integers(0, 80)), label_height=16.0) for a, b in pairs if a != b
    ]
    return boxes, links


def rectangles(boxes: list[Box], links: list[Link], layout: Layout) -> list[tuple[float, float, float, float]]:
    """Left, top, right and bottom of all boxes and labels."""
    found = []
    for box in boxes:
        at = layout.boxes[box.key]
        found.append((at.x - box.width / 2, at.y, at.x + box.width / 2, at.y + box.height))
    for link in links:
        at = layout.routes[link.key].label
        half = link.label_width / 2
        found.append((at.x - half, at.y - link.label_height / 2, at.x + half, at.y + link.label_height / 2))
    return found


@pytest.mark.rule("FR-I1")
@settings(max_examples=120, deadline=None)
@given(graphs())
def test_no_two_boxes_or_labels_overlap_and_all_are_inside(graph: tuple[list[Box], list[Link]]) -> None:
    boxes, links = graph
    layout = lay_out(boxes, links)
    found = rectangles(boxes, links, layout)
    for a, b in combinations(found, 2):
        apart = a[2] <= b[0] + 1e-6 or b[2] <= a[0] + 1e-6 or a[3] <= b[1] + 1e-6 or b[3] <= a[1] + 1e-6
        assert apart, (a, b)
    for left, top, right, bottom in found:
        assert left >= -1e-6
        assert top >= -1e-6
        assert right <= layout.width + 1e-6
        assert bottom <= layout.height + 1e-6


@settings(max_examples=120, deadline=None)
@given(graphs())
def test_every_link_leads_from_its_source_to_its_target(graph: tuple[list[Box], list[Link]]) -> None:
    boxes, links = graph
    layout = lay_out(boxes, links)
    sizes = {box.key: box for box in boxes}

    def touches(key: str, x: float, y: float) -> bool:
        at, box = layout.boxes[key], sizes[key]
        across = at.x - box.width / 2 - 1e-6 <= x <= at.x + box.width / 2 + 1e-6
        return across and (abs(y - at.y) < 1e-6 or abs(y - at.y - box.height) < 1e-6)

    assert layout.routes.keys() == {link.key for link in links}
    for link in links:
        route = layout.routes[link.key]
        assert touches(link.source, route.points[0].x, route.points[0].y)
        end = route.points[-1]
        if route.trunk is None:
            assert touches(link.target, end.x, end.y)
        else:
            trunks = [trunk for trunk in layout.trunks if trunk.target == link.target]
            assert any((end.x, end.y) in {(p.x, p.y) for p in trunk.points} for trunk in trunks)
            assert all(touches(link.target, trunk.points[-1].x, trunk.points[-1].y) for trunk in trunks)
        upward = all(b.y <= a.y + 1e-6 for a, b in pairwise(route.points))
        downward = all(b.y >= a.y - 1e-6 for a, b in pairwise(route.points))
        assert upward if route.is_back else downward


@settings(max_examples=60, deadline=None)
@given(graphs())
def test_the_same_graph_is_always_laid_out_the_same(graph: tuple[list[Box], list[Link]]) -> None:
    assert lay_out(*graph) == lay_out(*graph)


@settings(max_examples=120, deadline=None)
@given(graphs())
def test_what_is_not_a_back_link_has_no_cycle(graph: tuple[list[Box], list[Link]]) -> None:
    boxes, links = graph
    back = back_links(boxes, links)
    forward = [(link.source, link.target) for link in links if link.key not in back]
    left = {box.key for box in boxes}
    while left:
        free = {key for key in left if not any(b == key and a in left for a, b in forward)}
        assert free
        left -= free


def test_a_chain_is_straight() -> None:
    boxes = [Box("a", 40.0, 20.0), Box("b", 90.0, 20.0), Box("c", 60.0, 20.0)]
    layout = lay_out(boxes, [Link("a b", "a", "b", 30.0, 16.0), Link("b c", "b", "c", 30.0, 16.0)])
    assert {round(point.x, 6) for point in layout.boxes.values()} == {45.0}


def test_two_lines_that_need_not_cross_do_not() -> None:
    boxes = [Box(name, 40.0, 20.0) for name in ("a", "b", "x", "y")]
    layout = lay_out(boxes, [Link("a y", "a", "y"), Link("b x", "b", "x")])
    assert (layout.boxes["a"].x < layout.boxes["b"].x) == (layout.boxes["y"].x < layout.boxes["x"].x)
