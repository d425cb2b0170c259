"""What waits for others has threads of its own over REST and in the console too, and delays nobody else."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.urls import resolve
from site_live import Site, _site_port, site

from apps.core import threads
from apps.core.ids import new_id
from tests.loopback_searxng import Searxng, configured_searxng

__all__ = ["_site_port", "site"]
ID = new_id()


@pytest.fixture
def searxng(settings: Any) -> Iterator[Searxng]:
    with configured_searxng(settings) as server:
        yield server


@pytest.mark.rule("F18")
def test_as_many_slow_searches_over_rest_as_there_are_threads_delay_no_other_request(
    site: Site, searxng: Searxng
) -> None:
    searxng.mode = "slow"
    number = max(threads.THREADS, threads.LONG_THREADS)
    with ThreadPoolExecutor(number) as clients:
        slow = [clients.submit(site.send, "POST", "/api/v1/search", {"query": "spring"}) for _ in range(number)]
        try:
            while len(searxng.asked) < number:
                assert not any(one.done() for one in slow)
                threading.Event().wait(0.02)
            began = time.monotonic()
            assert site.send("GET", "/api/v1/status").status == 200
            assert site.tool("status", {})["isError"] is False
            assert time.monotonic() - began < 5
        finally:
            searxng.released.set()
        assert {one.result().status for one in slow} == {503}


@pytest.mark.parametrize(
    ("method", "address", "is_long"),
    [
        ("POST", "/api/v1/mirrors", True),
        ("GET", "/api/v1/mirrors", False),
        ("GET", f"/api/v1/mirrors/{ID}/", True),
        ("POST", f"/api/v1/mirrors/{ID}/restore", True),
        ("POST", "/api/v1/search/query", True),
        ("GET", "/api/v1/status", False),
        ("GET", f"/admin/console/mirrors/{ID}/", True),
        ("POST", f"/admin/console/mirrors/{ID}/restore/", True),
        ("POST", f"/admin/console/runs/{ID}/export/", True),
        ("GET", f"/admin/console/runs/{ID}/", False),
        ("POST", "/admin/agent_sessions/providerkey/setup/trials/openai", True),
        ("GET", "/admin/", False),
    ],
)
def test_what_may_take_long_is_told_by_its_address(method: str, address: str, is_long: bool) -> None:
    assert threads.may_take_long(resolve(address).func, method) is is_long
