"""A session whose call asks its human for input under a key, for tests of forms."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from mcp_live import Live
from mcp_session import Session, Stream, open_session

from apps.mcp import models, streams

ASK = {"text": "Who are you?"}


@pytest.fixture
def session(live: Live) -> Iterator[Session]:
    opened = open_session(live)
    yield opened
    opened.close()
    until(lambda: not models.Wait.objects.exists())


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks, progress and keep-alives within a test's patience."""
    monkeypatch.setattr(streams, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(streams, "PROGRESS_SECONDS", 0.1)
    monkeypatch.setattr(streams, "KEEP_ALIVE_SECONDS", 0.1)


def until(holds: Callable[[], bool], seconds: float = 10) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def result_of(stream: Stream) -> Any:
    """The reply's structured result; the stream ends with it."""
    message = stream.message()
    assert message["id"] == 7, message
    assert stream.message() is None
    return message["result"]["structuredContent"]
