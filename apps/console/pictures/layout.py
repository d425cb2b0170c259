"""A layered layout of boxes and links, top to bottom: ranks, crossing reduction by barycentre, straightened columns.

Every link runs through a slot of its own in the layer beside its source, where its label stands, so
neither labels nor boxes overlap.  Longer links to the same box share one trunk from there on, which
keeps large graphs readable and the work in proportion to boxes and links.  Links that would close a
cycle are laid upwards: they leave the top of their source and reach the bottom of their target.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from apps.console.pictures.columns import Tie, straighten

GAP_X = 22.0
GAP_Y = 13.0
_MOST_GAP_Y = 42.0
_SWEEPS = 8


@dataclass(frozen=True, slots=True)
class Box:
    """Something to place.  ``rank`` holds it in the very first or last layer.

    ``face`` is how much of its width, in the middle, lines attach to; ``None``: all of it.
    """

    key: str
    width: float
    height: float
    rank: str = ""
    face: float | None = None


@dataclass(frozen=True, slots=True)
class Link:
    """From one box to another one.  ``*_x`` fix where it attaches, from the box's middle; else links spread."""

    key: str
    source: str
    target: str
    label_width: float = 0.0
    label_height: float = 0.0
    source_x: float | None = None
    target_x: float | None = None


@dataclass(frozen=True, slots=True)
class Point:
    x: float
    y: float


@dataclass(frozen=True, slots=True)
class Route:
    """A link's way, to its target or into the ``trunk`` of that key."""

    points: tuple[Point, ...]
    label: Point
    is_back: bool
    trunk: str | None = None


@dataclass(frozen=True, slots=True)
class Trunk:
    """What links to the same box share, down to (or, ``is_back``, up to) that box."""

    target: str
    points: tuple[Point, ...]
    is_back: bool


@dataclass(frozen=True, slots=True)
class Layout:
    """Where everything is; boxes by their middle and their top."""

    width: float
    height: float
    boxes: Mapping[str, Point]
    routes: Mapping[str, Route]
    trunks: tuple[Trunk, ...]


@dataclass(slots=True)
class _Slot:
    """A place in a layer: a box, a link's label, or a piece of a trunk."""

    key: str
    layer: int
    width: float
    height: float
    weight: float = 1.0
    is_box: bool = False
    #: How much of its width lines attach to.
    face: float = 0.0


@dataclass(slots=True)
class _Plan:
    slots: dict[str, _Slot] = field(default_factory=dict)
    #: (upper slot, lower slot) → where the line attaches at each, where that is fixed.
    ties: dict[tuple[str, str], tuple[float | None, float | None]] = field(default_factory=dict)
    #: link → its slots from source to target or to its trunk's first shared slot.
    ways: dict[str, list[str]] = field(default_factory=dict)
    merged: dict[str, str] = field(default_factory=dict)
    trunks: dict[str, list[str]] = field(default_factory=dict)


def lay_out(boxes: Sequence[Box], links: Sequence[Link]) -> Layout:
    """Place ``boxes``; the first is where reading begins.  Links from a box to itself are not for here."""
    back = back_links(boxes, links)
    ranks = _ranks(boxes, links, back)
    plan = _plan(boxes, links, back, ranks)
    layers = _ordered(plan)
    ties = _ties(plan, layers)
    middles = straighten([[(key, plan.slots[key].width) for key in layer] for layer in layers], ties, gap=GAP_X)
    return _finished(plan, layers, ties, middles, back)


def back_links(boxes: Sequence[Box], links: Sequence[Link]) -> frozenset[str]:
    """Links against the direction of reading: those that a depth-first walk finds to close a cycle."""
    rank = {box.key: box.rank for box in boxes}
    back = {link.key for link in links if rank[link.target] == "first" or rank[link.source] == "last"}
    following: dict[str, list[Link]] = {box.key: [] for box in boxes}
    for link in links:
        if link.key not in back:
            following[link.source].append(link)
    done: dict[str, bool] = {}
    for box in boxes:
        if box.key in done:
            continue
        done[box.key] = False
        stack = [(box.key, iter(following[box.key]))]
        while stack:
            here, rest = stack[-1]
            onward = next(rest, None)
            if onward is None:
                done[here] = True
                stack.pop()
            elif onward.target not in done:
                done[onward.target] = False
                stack.append((onward.target, iter(following[onward.target])))
            elif not done[onward.target]:
                back.add(onward.key)
    return frozenset(back)


def _downward(link: Link, back: frozenset[str]) -> tuple[str, str]:
    return (link.target, link.source) if link.key in back else (link.source, link.target)


def _ranks(boxes: Sequence[Box], links: Sequence[Link], back: frozenset[str]) -> dict[str, int]:
    """Longest ways from the top; boxes that are held go first or last."""
    shift = 1 if any(box.rank == "first" for box in boxes) else 0
    ranks = {box.key: 0 if box.rank == "first" else shift for box in boxes}
    below: dict[str, list[str]] = {box.key: [] for box in boxes}
    waiting = dict.fromkeys(ranks, 0)
    for link in links:
        upper, lower = _downward(link, back)
        below[upper].append(lower)
        waiting[lower] += 1
    ready = [key for key, number in waiting.items() if not number]
    for upper in ready:
        for lower in below[upper]:
            ranks[lower] = max(ranks[lower], ranks[upper] + 1)
            waiting[lower] -= 1
            if not waiting[lower]:
                ready.append(lower)
    last = [box.key for box in boxes if box.rank == "last"]
    if last:
        free = [ranks[box.key] for box in boxes if box.rank != "last"]
        ranks.update(dict.fromkeys(last, max(free, default=-1) + 1))
    return ranks


def _plan(boxes: Sequence[Box], links: Sequence[Link], back: frozenset[str], ranks: Mapping[str, int]) -> _Plan:
    plan = _Plan()
    for box in boxes:
        face = box.width if box.face is None else box.face
        plan.slots[box.key] = _Slot(box.key, 2 * ranks[box.key], box.width, box.height, is_box=True, face=face)
    for link in links:
        _lay(plan, link, link.key in back)
    return plan


def _lay(plan: _Plan, link: Link, is_back: bool) -> None:
    """Slots and ties of one link, walked from its source to its target, whichever of them is higher."""
    step = -1 if is_back else 1
    label = f"{link.key} label"
    beside = plan.slots[link.source].layer + step
    end = plan.slots[link.target].layer
    plan.slots[label] = _Slot(label, beside, link.label_width, link.label_height)
    _tie(plan, link.source, label, is_back, link.source_x, None)
    if beside + step == end:
        plan.ways[link.key] = [link.source, label, link.target]
        _tie(plan, label, link.target, is_back, None, link.target_x)
        return
    trunk = f"{link.target} {'from below' if is_back else 'from above'} {link.target_x}"
    way = plan.trunks.setdefault(trunk, [])
    layers = range(beside + step, end, step)
    for layer in layers:
        piece = f"{trunk} {layer}"
        if piece not in plan.slots:
            plan.slots[piece] = _Slot(piece, layer, 0.0, 0.0, weight=4.0)
    for layer in layers:
        after = f"{trunk} {layer + step}" if layer + step != end else link.target
        _tie(plan, f"{trunk} {layer}", after, is_back, None, link.target_x if after == link.target else None)
    mine = [f"{trunk} {layer}" for layer in layers]
    if len(mine) + 1 > len(way):
        plan.trunks[trunk] = [*mine, link.target]
    plan.ways[link.key] = [link.source, label, mine[0]]
    plan.merged[link.key] = trunk
    _tie(plan, label, mine[0], is_back, None, None)


def _tie(plan: _Plan, a: str, b: str, is_back: bool, a_x: float | None, b_x: float | None) -> None:
    """Note a line from ``a`` to ``b``, upper slot first."""
    if is_back:
        a, b, a_x, b_x = b, a, b_x, a_x
    plan.ties.setdefault((a, b), (a_x, b_x))


def _ordered(plan: _Plan) -> list[list[str]]:
    """Each layer's slots from left to right, with few crossings."""
    layers: list[list[str]] = [[] for _ in range(max((slot.layer for slot in plan.slots.values()), default=0) + 1)]
    above: dict[str, list[str]] = {key: [] for key in plan.slots}
    below: dict[str, list[str]] = {key: [] for key in plan.slots}
    for upper, lower in plan.ties:
        below[upper].append(lower)
        above[lower].append(upper)
    for key in _reading_order(plan, below):
        layers[plan.slots[key].layer].append(key)
    place = {key: float(index) for layer in layers for index, key in enumerate(layer)}
    best, fewest = [list(layer) for layer in layers], _crossings(layers, below, place)
    for sweep in range(_SWEEPS):
        if not fewest:
            break
        down = sweep % 2 == 0
        for layer in layers if down else reversed(layers):
            _sort(layer, above if down else below, place)
        crossings = _crossings(layers, below, place)
        if crossings < fewest:
            best, fewest = [list(layer) for layer in layers], crossings
    return best


def _reading_order(plan: _Plan, below: Mapping[str, Sequence[str]]) -> list[str]:
    """Depth first from the top, so that what belongs together begins side by side."""
    seen: dict[str, None] = {}
    for root in sorted(plan.slots, key=lambda key: plan.slots[key].layer):
        stack = [root]
        while stack:
            key = stack.pop()
            if key not in seen:
                seen[key] = None
                stack.extend(reversed(below[key]))
    return list(seen)


def _sort(layer: list[str], beside: Mapping[str, Sequence[str]], place: dict[str, float]) -> None:
    def barycentre(key: str) -> float:
        near = beside[key]
        return sum(place[other] for other in near) / len(near) if near else place[key]

    layer.sort(key=barycentre)
    for index, key in enumerate(layer):
        place[key] = float(index)


def _crossings(layers: Sequence[Sequence[str]], below: Mapping[str, Sequence[str]], place: Mapping[str, float]) -> int:
    """How many lines cross, all layers together, with a binary indexed tree."""
    total = 0
    for layer, under in pairwise(layers):
        size = len(under) + 1
        tree = [0] * (size + 1)
        met = 0
        for key in layer:
            ends = sorted(int(place[other]) for other in below[key])
            for end in ends:
                before, index = 0, end + 1
                while index:
                    before += tree[index]
                    index &= index - 1
                total += met - before
            for end in ends:
                met += 1
                index = end + 1
                while index <= size:
                    tree[index] += 1
                    index += index & -index
    return total


def _ties(plan: _Plan, layers: Sequence[Sequence[str]]) -> list[Tie]:
    """Every line between two layers with where it attaches: fixed, or spread over the box in the order of its ends."""
    place = {key: index for layer in layers for index, key in enumerate(layer)}
    sides: dict[tuple[str, bool], list[tuple[int, tuple[str, str]]]] = {}
    for pair in plan.ties:
        upper, lower = pair
        sides.setdefault((upper, True), []).append((place[lower], pair))
        sides.setdefault((lower, False), []).append((place[upper], pair))
    attached: dict[tuple[tuple[str, str], bool], float] = {}
    for (key, is_upper), lines in sides.items():
        for number, (_, pair) in enumerate(sorted(lines), start=1):
            fixed = plan.ties[pair][0 if is_upper else 1]
            spread = plan.slots[key].face * (number / (len(lines) + 1) - 0.5)
            attached[pair, is_upper] = spread if fixed is None else fixed
    weights = {key: slot.weight for key, slot in plan.slots.items()}
    return [
        Tie(pair[0], pair[1], attached[pair, True], attached[pair, False], weights[pair[0]] * weights[pair[1]])
        for pair in plan.ties
    ]


def _finished(
    plan: _Plan,
    layers: Sequence[Sequence[str]],
    ties: Sequence[Tie],
    middles: Mapping[str, float],
    back: frozenset[str],
) -> Layout:
    spans = _heights(plan, layers, ties, middles)
    at = {(tie.upper, tie.lower): tie for tie in ties}

    def line(way: Sequence[str], is_back: bool) -> tuple[Point, ...]:
        """Through the whole height of each layer passed, so that curves keep to the gaps between layers."""
        points: list[Point] = []
        for a, b in pairwise(way):
            tie = at[(b, a) if is_back else (a, b)]
            upper = Point(middles[tie.upper] + tie.upper_x, spans[plan.slots[tie.upper].layer][1])
            lower = Point(middles[tie.lower] + tie.lower_x, spans[plan.slots[tie.lower].layer][0])
            if plan.slots[tie.upper].is_box:
                top = spans[plan.slots[tie.upper].layer][0]
                upper = Point(upper.x, top + plan.slots[tie.upper].height)
            points += [lower, upper] if is_back else [upper, lower]
        return tuple(points)

    def into(piece: str, is_back: bool) -> Point:
        """Where a trunk's first piece is entered."""
        return Point(middles[piece], spans[plan.slots[piece].layer][1 if is_back else 0])

    routes = {}
    for key, way in plan.ways.items():
        label = plan.slots[way[1]]
        top, bottom = spans[label.layer]
        middle = Point(middles[label.key], (top + bottom) / 2)
        routes[key] = Route(line(way, key in back), middle, key in back, plan.merged.get(key))
    width = max((middles[key] + slot.width / 2 for key, slot in plan.slots.items()), default=0.0)
    return Layout(
        width=width,
        height=spans[-1][1] if spans else 0.0,
        boxes={key: Point(middles[key], spans[slot.layer][0]) for key, slot in plan.slots.items() if slot.is_box},
        routes=routes,
        trunks=tuple(
            Trunk(way[-1], (into(way[0], is_back), *line(way, is_back)), is_back)
            for way in plan.trunks.values()
            for is_back in [plan.slots[way[0]].layer > plan.slots[way[-1]].layer]
        ),
    )


def _heights(
    plan: _Plan, layers: Sequence[Sequence[str]], ties: Sequence[Tie], middles: Mapping[str, float]
) -> list[tuple[float, float]]:
    """Top and bottom of each layer; lines that lead far aside get more room to do so."""
    aside = [0.0] * len(layers)
    for tie in ties:
        layer = plan.slots[tie.upper].layer
        across = abs(middles[tie.upper] + tie.upper_x - middles[tie.lower] - tie.lower_x)
        aside[layer] = max(aside[layer], across)
    spans, y = [], 0.0
    for index, row in enumerate(layers):
        height = max((plan.slots[key].height for key in row), default=0.0)
        spans.append((y, y + height))
        y += height + min(_MOST_GAP_Y, GAP_Y + 0.07 * aside[index])
    return spans
