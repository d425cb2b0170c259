"""Counting failed authentications, in bounded memory."""

from __future__ import annotations

import datetime as dt

import pytest

from apps.access.services import throttling
from apps.access.services.throttling import MAX_FAILURES, FailureCounts

START = dt.datetime(2026, 7, 28, 12, tzinfo=dt.UTC)


def after(seconds: float) -> dt.datetime:
    return START + dt.timedelta(seconds=seconds)


@pytest.mark.rule("K24")
def test_the_twenty_first_failure_within_a_minute_has_to_wait_for_the_first_to_age() -> None:
    counts = FailureCounts()
    assert [counts.note("10.0.0.1", after(number)) for number in range(MAX_FAILURES)] == [0] * MAX_FAILURES
    assert counts.note("10.0.0.1", after(20)) == 40
    assert counts.note("10.0.0.1", after(59.5)) == 1
    assert counts.note("10.0.0.1", after(60)) == 0
    assert counts.note("10.0.0.1", after(60)) == 1


@pytest.mark.rule("K24")
def test_slow_failures_never_have_to_wait() -> None:
    counts = FailureCounts()
    assert {counts.note("10.0.0.1", after(number * 3.1)) for number in range(200)} == {0}


@pytest.mark.rule("K24")
def test_each_address_is_counted_for_itself_and_an_ipv6_client_by_its_network() -> None:
    counts = FailureCounts()
    for number in range(MAX_FAILURES):
        assert counts.note(f"2001:db8:0:1::{number:x}", START) == 0
    assert counts.note("2001:db8:0:1:ffff::1", START) > 0
    assert counts.note("2001:db8:0:2::1", START) == 0
    assert counts.note("10.0.0.1", START) == 0
    assert counts.note("forwarded", START) == 0


@pytest.mark.rule("K24")
def test_no_number_of_addresses_fills_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(throttling, "MAX_ADDRESSES", 50)
    counts = FailureCounts()
    for number in range(500):
        counts.note(f"10.0.{number // 250}.{number % 250}", START)
    assert len(counts) == 50


@pytest.mark.rule("K24")
def test_the_address_longest_without_a_failure_is_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(throttling, "MAX_ADDRESSES", 2)
    counts = FailureCounts()
    for _ in range(MAX_FAILURES):
        counts.note("10.0.0.1", START)
    counts.note("10.0.0.2", START)
    assert counts.note("10.0.0.1", START) > 0
    counts.note("10.0.0.3", START)
    assert counts.note("10.0.0.1", START) > 0, "the second was forgotten, not the one that goes on"
