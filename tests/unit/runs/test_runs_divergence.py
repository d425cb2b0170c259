"""Truth tables: what differs, what can be brought back, what a Run has seen, and how a tree is put in order."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.core.errors import ErrorCode
from apps.runs.domain.boundaries import Dependency, Seen, seen_artifacts, written_ids
from apps.runs.domain.differences import ArtifactDifference, Sides, StateDifference, diverged
from apps.runs.domain.divergence import Change, Standing, compare, covers, why_not_restorable
from apps.runs.domain.trees import in_tree_order

KEPT = Dependency("a", "loom", "stage", 3, "then")
GONE = Dependency("a", "loom", "stage", 3, "nothing", removed=True)
SAME = Standing("a", "loom", "stage", 3, "then")
PUT_BACK = Standing("a", "loom", "stage", 7, "then")
OTHER_DATA = Standing("a", "loom", "stage", 4, "now")
ELSEWHERE = Standing("a", "loom", "other", 1, "then")
TAKEN = Standing("b", "loom", "stage", 5, "then")
EMPTY = Standing(None, "loom", "stage", 4, "nothing")


@pytest.mark.rule("M8")
@pytest.mark.parametrize(
    ("kept", "standing", "at_place", "change"),
    [
        (KEPT, SAME, SAME, None),
        (KEPT, PUT_BACK, PUT_BACK, None),
        (KEPT, OTHER_DATA, OTHER_DATA, Change.CHANGED),
        (KEPT, None, EMPTY, Change.REMOVED),
        (KEPT, None, None, Change.REMOVED),
        (KEPT, None, TAKEN, Change.REPLACED),
        (KEPT, ELSEWHERE, EMPTY, Change.MOVED),
        (KEPT, ELSEWHERE, TAKEN, Change.MOVED),
        (GONE, None, EMPTY, None),
        (GONE, None, None, None),
        (GONE, None, TAKEN, None),
        (GONE, SAME, SAME, Change.APPEARED),
        (GONE, ELSEWHERE, EMPTY, Change.APPEARED),
    ],
)
def test_an_artifact_differs_by_id_place_and_content_and_not_by_revision(
    kept: Dependency, standing: Standing | None, at_place: Standing | None, change: Change | None
) -> None:
    assert compare(kept, standing=standing, at_place=at_place) is change


@pytest.mark.rule("M8")
@pytest.mark.parametrize(
    ("kept", "change", "standing", "is_kept", "because"),
    [
        (KEPT, Change.CHANGED, OTHER_DATA, True, None),
        (KEPT, Change.REMOVED, None, True, None),
        (KEPT, Change.REPLACED, None, True, None),
        (GONE, Change.APPEARED, SAME, False, None),
        (KEPT, Change.CHANGED, OTHER_DATA, False, "never had the revision"),
        (KEPT, Change.REMOVED, None, False, "never had the revision"),
        (KEPT, Change.MOVED, ELSEWHERE, True, "stands at loom/other"),
        (GONE, Change.APPEARED, ELSEWHERE, False, "stands at loom/other"),
    ],
)
def test_what_can_be_brought_back(
    kept: Dependency, change: Change, standing: Standing | None, is_kept: bool, because: str | None
) -> None:
    found = why_not_restorable(kept, change, standing=standing, is_kept=is_kept)
    assert (found is None) if because is None else (found is not None and because in found)


@pytest.mark.rule("M8")
def test_a_scope_covers_its_own_part_and_all_covers_both() -> None:
    table = {(scope, part): covers(scope, part) for scope in (None, "artifacts", "state", "all") for part in PARTS}
    assert [pair for pair, covered in table.items() if covered] == [
        ("artifacts", "artifacts"), ("state", "state"), ("all", "artifacts"), ("all", "state"),
    ]  # fmt: skip


PARTS: tuple[Any, ...] = ("artifacts", "state")


def at(artifact_id: str, revision: int, stage: str = "stage", **more: Any) -> dict[str, Any]:
    return {"artifactId": artifact_id, "revision": revision, "loomName": "loom", "stageName": stage, **more}


@pytest.mark.rule("M8")
@pytest.mark.parametrize(
    ("touched", "seen"),
    [
        ([], {}),
        ([([at("a", 1)], [])], {"a": Seen("loom", "stage", 1)}),
        # What was written after it was read counts, within an attempt and from one to the next.
        ([([at("a", 1)], [at("a", 2)])], {"a": Seen("loom", "stage", 2)}),
        ([([at("a", 1)], []), ([at("a", 4)], [])], {"a": Seen("loom", "stage", 4)}),
        ([([], [at("a", 2, removed=True)])], {"a": Seen("loom", "stage", 2, removed=True)}),
        # Another one at the same place: the first is gone.
        ([([at("a", 1)], []), ([at("b", 3)], [])], {"b": Seen("loom", "stage", 3)}),
        ([([at("a", 1)], []), ([at("b", 3)], []), ([at("a", 5)], [])], {"a": Seen("loom", "stage", 5)}),
        (
            [([at("a", 1)], [at("a", 2, removed=True), at("b", 3)])],
            {"a": Seen("loom", "stage", 2, removed=True), "b": Seen("loom", "stage", 3)},
        ),
        (
            [([], [at("a", 2, removed=True), at("b", 3)])],
            {"a": Seen("loom", "stage", 2, removed=True), "b": Seen("loom", "stage", 3)},
        ),
        # The same one at another place.
        ([([at("a", 1)], []), ([at("a", 1, "other")], [])], {"a": Seen("loom", "other", 1)}),
        (
            [([at("a", 1)], []), ([at("a", 1, "other")], []), ([at("b", 2)], [])],
            {"a": Seen("loom", "other", 1), "b": Seen("loom", "stage", 2)},
        ),
        ([([{"recordId": "r"}], [{"recordId": "r"}])], {}),
    ],
)
def test_a_run_has_seen_each_artifact_as_it_last_read_or_wrote_it(touched: Any, seen: dict[str, Seen]) -> None:
    assert seen_artifacts([], touched) == seen


@pytest.mark.rule("M8", "M9")
def test_what_a_run_began_with_is_seen_first_whatever_its_order() -> None:
    here, gone = Dependency("b", "loom", "stage", 3, "digest"), Dependency("a", "loom", "stage", 1, "0", removed=True)
    for begun_with in ([here, gone], [gone, here]):
        seen = seen_artifacts(begun_with, [])
        assert seen["b"] == Seen("loom", "stage", 3, digest="digest")
        assert seen["a"].removed
    assert seen_artifacts([here], [([at("b", 5)], [])])["b"] == Seen("loom", "stage", 5)


@pytest.mark.rule("M9")
def test_written_ids_come_once_in_order() -> None:
    writes = [[at("b", 1), {"recordId": "r"}], [at("a", 1), at("b", 2)], [{"recordId": "q"}, {"recordId": "r"}]]
    assert written_ids(["c"], ["s"], writes) == (("c", "b", "a"), ("s", "r", "q"))


@pytest.mark.rule("M9")
@given(st.lists(st.integers(min_value=0, max_value=30)))
def test_a_tree_has_each_run_once_after_its_parent_and_one_deeper(choices: list[int]) -> None:
    parents: dict[str, str | None] = {}
    for number, choice in enumerate(choices):
        # Some have no parent, some have one that is not listed.
        parents[str(number)] = str(choice) if choice < number else None if choice % 2 else "unlisted"
    order = list(in_tree_order(parents))
    assert sorted(run for run, _, _ in order) == sorted(parents)
    depth: dict[str | None, int] = {None: -1}
    for run, parent, deep in order:
        assert parent == (parents[run] if parents[run] in parents else None)
        assert deep == depth[parent] + 1
        depth[run] = deep


@pytest.mark.rule("M9")
def test_a_tree_of_any_depth_is_put_in_order() -> None:
    parents: dict[str, str | None] = {"0": None, **{str(n): str(n - 1) for n in range(1, 5000)}}
    assert [deep for _, _, deep in in_tree_order(parents)] == list(range(5000))


@pytest.mark.rule("M8", "E3")
def test_the_refusal_names_what_changed_and_the_three_ways_on() -> None:
    artifact = ArtifactDifference(
        KEPT, Change.CHANGED, OTHER_DATA, OTHER_DATA, "run", Sides(1, 2, 1, 1, is_read=True), None
    )
    state = StateDifference("stage", "then", "now", Sides(then_size=10**6, now_size=3), True)
    error = diverged(4, [artifact] * 5, state, scope=None)
    assert (error.code, error.retryable) == (ErrorCode.MIRROR_DIVERGED, False)
    assert "at boundary 4" in error.message and "and 3 more" in error.message
    assert error.details is not None
    assert [way["with"] for way in error.details["ways"]] == [{"scope": "all"}, {"abandonMirror": True}, {}]
    told = error.details["differences"]
    assert told[0]["patch"] == [{"op": "replace", "path": "", "value": 2}]
    assert told[-1] == {
        "kind": "state",
        "stageName": "stage",
        "change": "changed",
        "then": {"digest": "then"},
        "now": {"digest": "now"},
        "size": {"then": 10**6, "now": 3},
        "restorable": True,
    }


@pytest.mark.rule("M8")
@pytest.mark.parametrize(
    ("scope", "has_artifact", "has_state", "says"),
    [
        (None, True, False, 'changed: Artifact a at loom/stage was at revision 3 and holds other data (revision 4 '
         'now). Resume with `scope: "artifacts"` to bring it back as new revisions, or with `abandonMirror: true` to '
         "go on with what is there; or leave it paused, and put it right yourself."),
        (None, False, True, 'Resume with `scope: "state"`'),
        ("state", True, False, '`scope: "state"` does not cover all of it. Resume with `scope: "artifacts"`'),
        ("state", True, True, '`scope: "state"` does not cover all of it. Resume with `scope: "all"`'),
        ("artifacts", True, False, '`scope: "artifacts"` cannot bring all of it back'),
        ("all", True, False, '`scope: "all"` cannot bring all of it back'),
    ],
)  # fmt: skip
def test_the_refusal_says_what_to_send_next(scope: Any, has_artifact: bool, has_state: bool, says: str) -> None:
    artifact = ArtifactDifference(KEPT, Change.CHANGED, OTHER_DATA, OTHER_DATA, "run", Sides(), "because")
    state = StateDifference("stage", "then", "now", Sides(), True)
    error = diverged(4, [artifact] if has_artifact else [], state if has_state else None, scope=scope)
    assert says in error.message
