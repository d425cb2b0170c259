"""``--data`` is taken before Django looks, wherever it stands."""

from __future__ import annotations

import pytest
from django.core import management
from django.db import OperationalError

from loomsvc.cli import main, take_data_option


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


@pytest.mark.parametrize("command", ["createsuperuser", "changepassword"])
def test_without_a_ledger_an_account_is_refused_in_words(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(arguments: list[str]) -> None:
        raise OperationalError("unable to open database file")

    monkeypatch.setattr(management, "execute_from_command_line", fail)
    monkeypatch.setattr("sys.argv", ["loomsvc", command])
    with pytest.raises(SystemExit, match="there is no ledger with accounts here"):
        main()
