"""When `make conformance` passes: the verdict on what the official suite found."""

from __future__ import annotations

import pytest

from tests.conformance.expected import EXPECTED
from tests.conformance.judging import Check, judge, unseen

REASONS = {("prompts", "listed"): "no use for them"}


def word_of(*statuses: str, check: str = "listed") -> str:
    (verdict,) = judge([Check("prompts", check, status) for status in statuses], REASONS)
    return verdict.word


@pytest.mark.parametrize(
    ("statuses", "word"),
    [
        (["FAILURE"], "expected"),
        (["WARNING"], "expected"),
        (["SUCCESS", "FAILURE"], "expected"),
        (["SUCCESS"], "FAILED"),
        (["SKIPPED"], "skipped"),
        (["INFO"], "skipped"),
    ],
)
def test_what_is_expected_to_fail_must_fail_or_be_skipped(statuses: list[str], word: str) -> None:
    assert word_of(*statuses) == word


@pytest.mark.parametrize(
    ("statuses", "word"),
    [
        (["SUCCESS"], "passed"),
        (["SUCCESS", "INFO"], "passed"),
        (["SUCCESS", "FAILURE"], "FAILED"),
        (["WARNING"], "FAILED"),
        (["SKIPPED"], "skipped"),
    ],
)
def test_what_is_not_expected_to_fail_must_not(statuses: list[str], word: str) -> None:
    assert word_of(*statuses, check="other") == word


def test_a_failure_is_expected_in_its_own_scenario_and_no_other() -> None:
    expected, failed = judge(
        [Check("prompts", "listed", "FAILURE"), Check("tools", "listed", "FAILURE", "no")], REASONS
    )
    assert (expected.word, expected.expected) == ("expected", ["no use for them"])
    assert (failed.word, failed.wrong) == ("FAILED", ["listed: no"])


def test_one_wrong_check_makes_its_scenario_fail_whatever_else_is_expected() -> None:
    (verdict,) = judge([Check("prompts", "listed", "FAILURE"), Check("prompts", "read", "FAILURE")], REASONS)
    assert verdict.word == "FAILED"


def test_an_expected_failure_that_fails_in_no_run_is_named() -> None:
    skipped, failed = [Check("prompts", "listed", "SKIPPED")], [Check("prompts", "listed", "WARNING")]
    assert unseen([skipped, []], REASONS) == [("prompts", "listed")]
    assert unseen([skipped, failed], REASONS) == []


def test_each_expected_failure_has_a_reason() -> None:
    assert EXPECTED
    assert all(EXPECTED.values())
