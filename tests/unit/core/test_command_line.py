"""``--data`` is taken before Django looks, wherever it stands."""

from __future__ import annotations

import pytest

from loomsvc.cli import take_data_option


@pytest.mark.parametrize(
    ("given", "left", "data"),
    [
        (["loomsvc", "up", "--data", "x", "--json"], ["loomsvc", "up", "--json"], "x"),
        (["loomsvc", "migrate", "--data=x"], ["loomsvc", "migrate"], "x"),
        (["loomsvc", "--data", "x", "up"], ["loomsvc", "up"], "x"),
        (["loomsvc", "up", "--data"], ["loomsvc", "up", "--data"], None),
        (["loomsvc", "up", "--database", "x"], ["loomsvc", "up", "--database", "x"], None),
    ],
)
def test_the_data_option_is_taken_out(given: list[str], left: list[str], data: str | None) -> None:
    arguments = list(given)
    assert take_data_option(arguments) == data
    assert arguments == left
