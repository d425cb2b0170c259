"""A request's body is read within its bound, however it comes (K23)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from apps.core import exchange
from apps.core.exchange import Disconnected, Head, read_body

LIMIT = 100


def head(length: str | None = None) -> Head:
    return Head("POST", b"", {} if length is None else {"content-length": length}, "10.0.0.1")


def read(length: str | None, *parts: bytes, ends: bool = True) -> tuple[bytes | None, int]:
    """What came of a body in these ``parts``, the last of them for ever unless it ``ends``; how many were read."""
    read: list[bytes] = []

    async def receive() -> dict[str, Any]:
        await asyncio.sleep(0)
        part = parts[min(len(read), len(parts) - 1)]
        read.append(part)
        return {"type": "http.request", "body": part, "more_body": not ends or len(read) < len(parts)}

    return asyncio.run(read_body(head(length), receive, limit=LIMIT)), len(read)


@pytest.mark.rule("K23", "FR-D17")
@pytest.mark.parametrize("length", ["100", None])
def test_a_body_within_the_limit_is_read_whole_in_whatever_parts_it_comes(length: str | None) -> None:
    assert read(length, b"x" * 100) == (b"x" * 100, 1)
    assert read(length, *[b"x"] * 100) == (b"x" * 100, 100)


@pytest.mark.rule("K23")
@pytest.mark.parametrize("length", ["101", "9" * 30])
def test_nothing_is_read_of_a_body_that_is_announced_as_too_long(length: str) -> None:
    assert read(length, b"x") == (None, 0)


@pytest.mark.rule("K23")
@pytest.mark.parametrize("length", [None, "1", "", "-1", "x"])
def test_a_body_without_end_is_given_up_a_little_past_the_limit(length: str | None) -> None:
    found, parts = read(length, b"x" * 50, ends=False)
    assert (found, parts) == (None, exchange._DRAINED * LIMIT // 50 + 1)


@pytest.mark.rule("F18")
def test_a_client_that_goes_away_has_sent_no_body() -> None:
    async def gone() -> dict[str, Any]:
        return {"type": "http.disconnect"}

    with pytest.raises(Disconnected):
        asyncio.run(read_body(head(), gone, limit=LIMIT))


@pytest.mark.rule("K23")
def test_a_body_that_does_not_come_in_time_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "BODY_SECONDS", 0.01)

    async def never() -> dict[str, Any]:
        await asyncio.sleep(3600)
        raise AssertionError

    with pytest.raises(TimeoutError):
        asyncio.run(read_body(head(), never, limit=LIMIT))
