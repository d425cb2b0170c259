"""Where the slots of ordered layers stand from left to right: lines as straight as order and room allow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_ROUNDS = 6


@dataclass(frozen=True, slots=True)
class Tie:
    """A line between slots of two neighbouring layers; ``*_x`` is where it attaches, from the slot's middle."""

    upper: str
    lower: str
    upper_x: float
    lower_x: float
    weight: float


def straighten(layers: Sequence[Sequence[tuple[str, float]]], ties: Sequence[Tie], *, gap: float) -> dict[str, float]:
    """The middle of each slot of ``layers`` (key and width, in order); the leftmost slot begins at 0.

    Sweeps down and up; each layer is moved to the places that lie nearest, by least squares, to where
    its lines would be straight.
    """
    middles: dict[str, float] = {}
    for layer in layers:
        x = 0.0
        for key, width in layer:
            middles[key] = x + width / 2
            x += width + gap
    # slot → (its neighbour, where it should stand from there, weight)
    above: dict[str, list[tuple[str, float, float]]] = {key: [] for key in middles}
    below: dict[str, list[tuple[str, float, float]]] = {key: [] for key in middles}
    for tie in ties:
        above[tie.lower].append((tie.upper, tie.upper_x - tie.lower_x, tie.weight))
        below[tie.upper].append((tie.lower, tie.lower_x - tie.upper_x, tie.weight))
    for number in range(_ROUNDS):
        down = number % 2 == 0
        for layer in layers if down else reversed(layers):
            _settle(layer, above if down else below, middles, gap)
    for layer in layers:
        both = {key: above[key] + below[key] for key, _ in layer}
        _settle(layer, both, middles, gap)
    left = min((middles[key] - width / 2 for layer in layers for key, width in layer), default=0.0)
    return {key: middle - left for key, middle in middles.items()}


def _settle(
    layer: Sequence[tuple[str, float]],
    near: Mapping[str, Sequence[tuple[str, float, float]]],
    middles: dict[str, float],
    gap: float,
) -> None:
    """Move one layer; pools neighbours that want to pass each other (isotonic regression)."""
    # Each pool: what its slots want on average, their weight, and how many there are.
    pools: list[tuple[float, float, int]] = []
    offsets: list[float] = []
    offset = 0.0
    for index, (key, width) in enumerate(layer):
        if index:
            offset += layer[index - 1][1] / 2 + gap + width / 2
        offsets.append(offset)
        wanted, weight = middles[key], 0.05
        if near[key]:
            weight = sum(each for _, _, each in near[key])
            wanted = sum((middles[other] + aside) * each for other, aside, each in near[key]) / weight
        mean, heavy, count = wanted - offset, weight, 1
        while pools and pools[-1][0] >= mean:
            other, more, number = pools.pop()
            mean = (mean * heavy + other * more) / (heavy + more)
            heavy, count = heavy + more, count + number
        pools.append((mean, heavy, count))
    index = 0
    for mean, _, count in pools:
        for _ in range(count):
            middles[layer[index][0]] = mean + offsets[index]
            index += 1
