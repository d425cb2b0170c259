"""What is one rule for the terminal and the console: labels, days, how a credential stands, what it opens."""

from __future__ import annotations

import datetime as dt

import pytest

from apps.access.domain.credentials import State, days_in, is_label, state_of
from apps.access.domain.entries import paths_opened
from apps.core.caller import Source

NOW = dt.datetime(2026, 11, 30, tzinfo=dt.UTC)
SECOND = dt.timedelta(seconds=1)


@pytest.mark.parametrize(
    ("text", "fits"),
    [("x", True), ("a" * 200, True), ("a" * 201, False), ("", False), (" ", False), ("a\nb", False), ("a\tb", False)],
)
def test_a_label_is_one_line_of_printable_characters(text: str, fits: bool) -> None:
    assert is_label(text) is fits


@pytest.mark.parametrize(
    ("text", "days"),
    [("1", 1), ("36500", 36500), ("007", 7), ("0", None), ("36501", None), ("-1", None), ("1.5", None), ("", None),
     ("٣", None), ("9" * 5000, None)],
)  # fmt: skip
def test_days_are_a_whole_number_within_a_century(text: str, days: int | None) -> None:
    assert days_in(text) == days


@pytest.mark.rule("N2")
@pytest.mark.parametrize(
    ("revoked_at", "expires_at", "state"),
    [
        (None, None, State.LIVE),
        (None, NOW + SECOND, State.LIVE),
        (None, NOW, State.EXPIRED),
        (NOW, NOW + SECOND, State.REVOKED),
        (NOW, NOW - SECOND, State.REVOKED),
    ],
)
def test_a_credential_is_live_until_it_ends(
    revoked_at: dt.datetime | None, expires_at: dt.datetime | None, state: State
) -> None:
    assert state_of(revoked_at=revoked_at, expires_at=expires_at, now=NOW) is state


def test_a_source_opens_its_entries() -> None:
    assert paths_opened(Source.AGENT_IDE) == "/mcp, /mcp/codex"
    assert paths_opened(Source.STUDIO) == "/internal/mcp/studio, /api/v1"
