"""The review example with awkward texts and answers: what it asks, shows, refuses, and where it ends."""

from __future__ import annotations

import time
from typing import Any

import pytest

from apps.looms.segments import Ask, Confirm
from apps.looms.sources import EXAMPLES
from apps.looms.testing import load_folder
from loomsvc.testing import LoomRun, run_loom

TITLE = "Notes"
SAID = {"verdict": "as_it_is", "point": "Nothing.", "edits": None, "notes": None}


def review(text: str, *answers: Any, **more: Any) -> LoomRun:
    return run_loom(EXAMPLES / "review", {"title": TITLE, "text": text, "checks": [], **more}, answers=answers)


def asked(run: LoomRun) -> dict[str, dict[str, Any]]:
    assert isinstance(run.pending, Ask)
    return {question["id"]: question for question in run.pending.request}


def shown(run: LoomRun) -> str:
    assert isinstance(run.pending, Confirm)
    return run.pending.context


def edited(text: str, edits: str) -> LoomRun:
    return review(text, {**SAID, "verdict": "with_edits", "edits": edits})


def test_the_first_round_shows_the_text_and_what_a_machine_found() -> None:
    long = " ".join(["word"] + ["and", "word"] * 15)
    questions = asked(review(f"We we go. {long}.", audience="Staff", max_words=20, avoid=["GO", "wor"], checks=["So?"]))
    assert list(questions) == ["verdict", "point", "check_1", "edits", "notes"]
    assert questions["verdict"]["question"] == "Round 1 of 10: what shall become of “Notes”?"
    assert questions["verdict"]["description"].splitlines() == [
        "It is for: Staff",
        "Words: 34, sentences: 2, minutes to read: 1.",
        "- It has 34 words; it may have 20.",
        "- “GO” should not be in it; it is there once.",
        "- “We we”: the same word twice.",
        "- A sentence of 31 words: “word and word and word and …”",
        "",
        f"We we go. {long}.",
    ]
    assert [name for name, question in questions.items() if question["isSkippable"]] == ["check_1", "edits", "notes"]


def test_a_later_round_says_why_and_keeps_what_is_skipped() -> None:
    first = {**SAID, "verdict": "with_edits", "edits": "old -> new", "check_1": "no"}
    questions = asked(review("old", first, {"isConfirmed": False, "feedback": "Newer."}, checks=["So?"]))
    assert questions["verdict"]["question"].startswith("Round 2 of 10")
    assert questions["verdict"]["description"].startswith("You said of the last proposal: Newer.\n")
    assert questions["verdict"]["description"].endswith("\n\nnew")
    assert questions["point"]["description"] == "Skip to keep: Nothing."
    assert questions["check_1"]["description"] == "Skip to keep: no"
    assert [option["id"] for option in questions["start_from"]["options"]] == ["proposal", "original"]
    required = [name for name, question in questions.items() if not question["isSkippable"]]
    assert required == ["verdict"]


def test_problems_are_told_in_the_next_round_and_gone_in_the_one_after() -> None:
    lost = {**SAID, "verdict": "with_edits", "edits": "x -> y"}
    description = asked(review("old", lost))["verdict"]["description"]
    assert "Nothing of the last round was carried out:\n- Edit 1: the text has no “x”." in description
    feedback = {"isConfirmed": False, "feedback": "Why?"}
    again = review("old", SAID, feedback, lost)
    assert "You said of the last proposal: Why?" in asked(again)["verdict"]["description"], "an unclear round is none"
    after = asked(review("old", SAID, feedback, lost, SAID, {"isConfirmed": False, "feedback": " "}))["verdict"]
    assert after["description"].startswith("You said of the last proposal: No.\n")
    assert "carried out" not in after["description"]


def test_own_words_where_only_an_option_will_do_are_asked_again() -> None:
    first = {**SAID, "verdict": "with_edits", "edits": "old -> new"}
    run = review("old", first, False, {**first, "point": None, "edits": "new -> newer", "start_from": "the old one"})
    assert run.state["problems"] == ["“the old one” does not answer `start_from`; choose one of the options."]
    assert run.state["text"] == "new"


def test_what_is_said_in_a_confirmation_is_kept_as_far_as_it_may_be_long() -> None:
    run = review("a", SAID, {"isConfirmed": True, "feedback": "n" * 5_001})
    assert run.artifact("review")["notes"] == ["n" * 5_000]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (" ".join(["word", "other"] * 15), []),
        (" ".join(["word", "other"] * 15 + ["word"]), ["A sentence of 31 words: “word other word other word other …”"]),
        ("one two three", []),
        ("one\n\ntwo. Three four", ["It has 4 words; it may have 3."]),
        ("goat ogo", []),
        ("Go go", ["“go” should not be in it; it is there 2 times.", "“Go go”: the same word twice."]),
    ],
)
def test_findings(text: str, found: list[str]) -> None:
    wanted = {"max_words": 3} if len(text) < 30 else {}
    run = review(text, SAID, True, avoid=["go"], **wanted)
    assert run.artifact("review")["findings"] == found


def test_so_many_findings_are_shown() -> None:
    findings = review("b b. " * 25, SAID, True).artifact("review")["findings"]
    assert len(findings) == 21
    assert findings[-1] == "And 5 more."


def test_the_proposal_shows_a_diff_and_only_a_person_may_confirm_it() -> None:
    run = edited("one\ntwo\nthree\nfour", "two -> 2")
    assert isinstance(run.pending, Confirm)
    assert run.pending.only_person is True
    diff = "```diff\n--- as it was\n+++ as reviewed\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n```"
    assert diff in shown(run)
    assert "The text is unchanged." in shown(review("one", SAID))


def test_what_was_written_cannot_break_out_of_the_proposal() -> None:
    run = edited("```\n# A\n````\nB", "B -> C\n# A -> <script>")
    assert "`````diff\n" in shown(run)
    assert shown(run).count("\n`````") == 2
    escaped = review("a", {**SAID, "point": "# [x](javascript:1)\n\n<img>"}, title="*a* `b`")
    assert "# \\*a\\* \\`b\\`" in shown(escaped)
    assert "\\# \\[x\\](javascript:1) \\<img\\>" in shown(escaped)


@pytest.mark.parametrize(
    ("text", "edits", "after"),
    [
        ("a b a", "a => c", "c b c"),
        ("a b a", "a b ⇒ c", "c a"),
        ("so very big", "very ->", "so big"),
        ("so very, very big", "very =>", "so , big"),
        ("axb a.b", "a.b -> \\1", "axb \\1"),
        ("x", "\n  x   ->   y  \n\n y -> z", "z"),
        ("a", "a -> b -> c", "b -> c"),
        ("a b; c", "a -> A;; b; -> B, ;;", "A B, c"),
        ("a b", "a -> A\r\nb -> B\r\n", "A B"),
    ],
)
def test_edits(text: str, edits: str, after: str) -> None:
    run = edited(text, edits)
    assert run.state["text"] == after, run.state["problems"]


@pytest.mark.parametrize(
    ("edits", "problem"),
    [
        ("a => " + "b" * 400, "longer than 30,000 characters"),
        ("\n".join(["a -> b"] * 200), "These are 201 edits; send at most 200 in a round."),
    ],
)
def test_edits_are_bounded_and_kept_whole_or_not_at_all(edits: str, problem: str) -> None:
    run = edited("a" * 100 + "x", "x -> y\n" + edits)
    assert run.state["text"] == "a" * 100 + "x"
    assert len(run.state["problems"]) == 1
    assert problem in run.state["problems"][-1]


def test_an_answer_that_is_too_long_is_asked_for_again_and_not_kept() -> None:
    run = review("a", {**SAID, "notes": "n" * 5_001})
    assert run.state["problems"] == ["Your answer to `notes` is too long: 5,000 characters at most."]
    assert (run.state["said"], run.state["notes"]) == (None, [])
    assert run.records("review")[0]["said"] is None


def test_the_rounds_are_as_many_as_the_graph_allows_and_each_left_a_record() -> None:
    again = [SAID, False] * 11
    run = review("a", *again)
    assert run.problem is not None
    assert run.problem.code == "LOOP_LIMIT"
    assert [record["round"] for record in run.records("review")] == list(range(1, 11))
    assert asked(review("a", *again[:18]))["verdict"]["question"].startswith("Round 10 of 10")


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"text": " \n"}, "/text"),
        ({"text": "a" * 30_001}, "/text"),
        ({"title": "two\nlines"}, "/title"),
        ({"title": " "}, "/title"),
        ({"max_words": 0}, "/max_words"),
        ({"avoid": ["x", ""]}, "/avoid/1"),
        ({"checks": ["x?"] * 11}, "/checks"),
        ({"reader": "x"}, "/reader"),
    ],
)
def test_an_input_that_does_not_fit_is_refused_with_its_place(change: dict[str, Any], path: str) -> None:
    loom = load_folder(EXAMPLES / "review").loom
    assert loom is not None
    assert [issue.path for issue in loom.check_input({"title": "t", "text": "x", **change})] == [path]


@pytest.mark.parametrize("text", ["a\n", "a\nb\n", "a.\n", " ", "a a ", "`", "A. "])
def test_the_longest_texts_are_shown_in_good_time(text: str) -> None:
    longest = (text * 30_000)[:29_999] + "x"
    began = time.monotonic()
    run = edited(longest, "x -> y")
    assert isinstance(run.pending, Confirm)
    assert time.monotonic() - began < 10
