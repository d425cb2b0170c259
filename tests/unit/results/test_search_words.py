"""What counts as a word, and what a snippet may show."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.results.domain import snippets, words

ANY_TEXT = st.text(max_size=300)
STORED = re.compile(r"(<[^<>\s]+>)*")


@pytest.mark.rule("B7")
@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("The Release-notes of v2.1", ["the", "release", "notes", "of", "v2", "1"]),
        ("release_notes/src/app.py", ["release", "notes", "src", "app", "py"]),
        ("GRÖSSE größe", ["grösse", "grösse"]),
        ("ﬁne ①", ["fine", "1"]),
        ("東京都庁へ", ["東京", "京都", "都庁", "庁へ", "へ"]),
        ("v東京2", ["v", "東京", "京", "2"]),
        ("庁", ["庁"]),
        ("हिन्दी भाषा", ["हिन्दी", "भाषा"]),
        ("שלום עולם", ["שלום", "עולם"]),
        ("done 😀👍🏽", ["done", "😀", "👍"]),
        ("' OR \" ) * : ^ {} -- %", ["or"]),
        ("\u202e\u200b \x00\x1b", []),
        ("x" * 100, ["x" * 64]),
    ],
)
def test_a_text_is_cut_into_words(text: str, found: list[str]) -> None:
    assert list(words.split(text)) == found


@pytest.mark.rule("B7")
def test_strings_and_numbers_of_a_result_are_its_content_and_names_of_members_are_not() -> None:
    data = {"title": "One", "list": [2, {"deep": "three"}, None, True, 4.5]}
    assert list(words.texts_of(data)) == ["One", "2", "three", "4.5"]


@given(ANY_TEXT)
def test_stored_words_are_found_again_one_by_one(text: str) -> None:
    stored = words.stored([text])
    assert STORED.fullmatch(stored)
    for one in words.sought(text):
        assert one.pattern in stored


@given(st.lists(ANY_TEXT, max_size=5))
def test_cutting_what_is_cut_changes_nothing(texts: list[str]) -> None:
    cut = [word for text in texts for word in words.split(text)]
    assert all(one.word in cut for text in texts for one in words.sought(text))


def test_only_the_beginning_of_a_very_long_result_is_kept() -> None:
    stored = words.stored(["word " * 1_000_000, "last"])
    assert len(stored) <= words.MOST_CHARACTERS
    assert "last" not in stored


@pytest.mark.parametrize(
    ("word", "is_prefix"), [("rel", False), ("rele", True), ("東京", False), ("東", True), ("a", False)]
)
def test_longer_words_are_beginnings_too(word: str, is_prefix: bool) -> None:
    assert words.sought(word) == (words.Sought(word, is_prefix),)


def test_a_query_has_a_bounded_number_of_words() -> None:
    assert len(words.sought(" ".join(map(str, range(1000))))) == words.MOST_QUERY_WORDS


MARKUP = [
    "<img src=x onerror=alert(1)>",
    "[x](javascript:alert(1)) ![y](https://evil.example/?q=1)",
    "</script><script>alert(1)</script>",
    "&lt;b&gt; &#60;b&#62;",
    "`code` **bold** __bold__ ~~gone~~ # head | cell |",
    "\x1b[31mred\x1b[0m \u202eevil\u202c a\u200bb",
    "<https://evil.example> https://evil.example",
    "line\r\nbreak\u2028too",
]
_SAFE = re.compile(r"[^<>&\[\]{}|*_`~\\^#\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069]*")


@pytest.mark.rule("B7", "FR-H9")
@pytest.mark.parametrize("text", MARKUP)
def test_a_snippet_cannot_carry_markup(text: str) -> None:
    shown = snippets.snippet([f"before {text} after"], words.sought("after"))
    assert _SAFE.fullmatch(shown), shown
    assert "://" not in shown
    assert "after" in shown


@pytest.mark.rule("B7", "FR-H9")
@given(st.lists(ANY_TEXT, max_size=4), ANY_TEXT)
def test_no_text_gets_markup_into_a_snippet(texts: list[str], query: str) -> None:
    shown = snippets.snippet(texts, words.sought(query))
    assert _SAFE.fullmatch(shown), shown
    assert len(shown) <= snippets.LENGTH + 2


def test_a_snippet_shows_the_place_of_the_first_word_found() -> None:
    text = "padding " * 200 + "then the release came " + "padding " * 200
    shown = snippets.snippet(["nothing here", text], words.sought("RELEASE"))
    assert "then the release came" in shown
    assert shown.startswith("…padding")
    assert shown.endswith("…")


@pytest.mark.parametrize(
    ("query", "shown", "hidden"), [("rel", "rel at last", "release"), ("rele", "release", "rel at")]
)
def test_a_short_word_is_shown_where_it_stands_whole_and_a_longer_one_where_it_begins_another(
    query: str, shown: str, hidden: str
) -> None:
    text = "padding " * 40 + "release " + "padding " * 40 + "rel at last"
    line = snippets.snippet([text], words.sought(query))
    assert shown in line
    assert hidden not in line


def test_a_snippet_without_a_word_in_sight_is_the_beginning() -> None:
    assert snippets.snippet(["one", "", "two"], words.sought("id-7")) == "one two"
    assert snippets.snippet([], words.sought("id-7")) == ""


def test_a_snippet_of_a_huge_result_costs_little() -> None:
    began = time.process_time()
    snippets.snippet(["x " * 1_000_000] * 3, words.sought("absent"))
    assert time.process_time() - began < 2
