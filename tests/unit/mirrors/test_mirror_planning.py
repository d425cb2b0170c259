"""The truth tables of a restore's plan (M5)."""

from __future__ import annotations

import pytest

from apps.mirrors.domain.planning import Standing, decide_artifact, decide_record, decide_release, decide_run

SAME, OTHER = Standing("a", "d", False), Standing("a", "x", False)
MINE, ANOTHER_ID, MY_ANOTHER_ID = Standing("a", "x", True), Standing("b", "d", False), Standing("b", "d", True)


@pytest.mark.rule("M5")
@pytest.mark.parametrize(
    ("removed", "placed", "here", "elsewhere", "action"),
    [
        (False, False, None, None, "create"),
        (False, False, SAME, None, "unchanged"),
        (False, False, OTHER, None, "conflict"),
        (False, False, MINE, None, "replace"),
        (False, False, ANOTHER_ID, None, "conflict"),
        (False, False, MY_ANOTHER_ID, None, "replace"),
        (False, False, None, "x/y", "conflict"),
        (False, False, SAME, "x/y", "conflict"),
        (False, True, OTHER, None, "unchanged"),
        (False, True, None, None, "unchanged"),
        (False, True, None, "x/y", "unchanged"),
        (True, False, None, None, "unchanged"),
        (True, False, ANOTHER_ID, None, "unchanged"),
        (True, False, SAME, None, "conflict"),
        (True, False, MINE, None, "replace"),
        (True, False, None, "x/y", "conflict"),
        (True, True, OTHER, None, "unchanged"),
    ],
)
def test_an_artifact(removed: bool, placed: bool, here: Standing | None, elsewhere: str | None, action: str) -> None:
    found = decide_artifact(artifact_id="a", digest="d", removed=removed, placed=placed, here=here, elsewhere=elsewhere)
    assert found.action == action
    assert found.reason or action != "conflict", "a conflict says why"


@pytest.mark.rule("M5")
@pytest.mark.parametrize(
    ("placed", "known", "action"),
    [
        (False, None, "create"),
        (False, "d", "unchanged"),
        (False, "x", "conflict"),
        (True, None, "unchanged"),
        (True, "d", "unchanged"),
        (True, "x", "unchanged"),
    ],
)
def test_a_record(placed: bool, known: str | None, action: str) -> None:
    assert decide_record(digest="d", placed=placed, known_digest=known).action == action


@pytest.mark.rule("M5", "R8")
@pytest.mark.parametrize(
    ("restored", "other", "action"),
    [(None, None, "create"), ("r", None, "unchanged"), ("r", "o", "unchanged"), (None, "o", "conflict")],
)
def test_a_run(restored: str | None, other: str | None, action: str) -> None:
    assert decide_run(restored=restored, other=other).action == action


@pytest.mark.rule("M7")
@pytest.mark.parametrize(
    ("trusted", "action", "warns"), [(None, "create", True), (False, "unchanged", True), (True, "unchanged", False)]
)
def test_a_release(trusted: bool | None, action: str, warns: bool) -> None:
    found = decide_release(trusted=trusted)
    assert (found.action, found.reason is not None) == (action, warns)
