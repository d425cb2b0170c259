"""A failpoint does what is armed, and a misspelt one is no silent pass."""

from __future__ import annotations

import time

import pytest

from apps.core.failpoints import Failpoint, FailpointRaised, reach


def test_nothing_happens_where_nothing_is_armed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LOOMSVC_FAILPOINT", raising=False)
    reach(Failpoint.BEFORE_COMMIT)
    monkeypatch.setenv("LOOMSVC_FAILPOINT", "in_sweep:raise")
    reach(Failpoint.BEFORE_COMMIT)


def test_an_armed_place_raises_or_sleeps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOMSVC_FAILPOINT", "before_commit:raise,in_sweep:sleep=0.05")
    with pytest.raises(FailpointRaised, match="before_commit"):
        reach(Failpoint.BEFORE_COMMIT)
    began = time.monotonic()
    reach(Failpoint.IN_SWEEP)
    assert time.monotonic() - began >= 0.05


@pytest.mark.parametrize("value", ["before_comit:raise", "before_commit:explode"])
def test_what_does_not_exist_is_refused(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("LOOMSVC_FAILPOINT", value)
    with pytest.raises(ValueError, match="LOOMSVC_FAILPOINT"):
        reach(Failpoint.BEFORE_COMMIT)
