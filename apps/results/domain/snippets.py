"""The few words of a result that are shown where it was found.

What a model or a page shows may come from anybody.  So a snippet is one line of letters, digits and plain
punctuation: no character is left of which HTML, Markdown or a terminal makes anything.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence

from apps.results.domain import words

#: Characters of a snippet, the ellipses apart.
LENGTH = 240
#: How much of a result is looked through for the place to show.
_MOST_CHARACTERS = 100_000
#: Characters of what comes before the word that was found.
_BEFORE = 60
_MEANS_SOMETHING = frozenset("<>&[]{}|*_`~\\^#")
_TEXTS_OF_A_BEGINNING = 20


class _Plain(dict[int, str]):
    """What a character becomes in plain text; found out once for each."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        # Controls, what turns the direction of writing, what is invisible, halves of characters, private ones.
        dropped = unicodedata.category(character)[0] in "CZ" or character in _MEANS_SOMETHING
        self[code] = " " if dropped else character
        return self[code]


_PLAIN = _Plain()


def plain(text: str, *, length: int) -> str:
    """``text`` as one line that cannot be taken for markup, at most ``length`` characters and an ellipsis."""
    line = " ".join(text.translate(_PLAIN).split())
    # A scheme makes a link of an address that nobody wrote as one.
    line = line.replace("://", ":/ /")
    return line if len(line) <= length else line[:length].rstrip() + "…"


def snippet(texts: Iterable[str], found: Sequence[words.Sought]) -> str:
    """A line around the first of the words ``found``; the beginning where none of them is seen."""
    place = _place_of(found)
    left = _MOST_CHARACTERS
    beginning: list[str] = []
    for text in texts:
        text = unicodedata.normalize("NFKC", text[:left])
        left -= len(text)
        # Few characters change their number when they are folded; then the place shown is off by as many.
        seen = place.search(text.casefold()) if place else None
        if seen is not None:
            return _around(text, min(seen.start(), len(text)))
        if len(beginning) < _TEXTS_OF_A_BEGINNING:
            beginning.append(text[: 2 * LENGTH])
        if left <= 0:
            break
    return plain(" ".join(beginning), length=LENGTH)


def _place_of(found: Sequence[words.Sought]) -> re.Pattern[str] | None:
    """Where one of the words stands; inside a run without spaces it may stand anywhere."""
    patterns = []
    for one in found:
        before = "" if words.is_unspaced(one.word) else r"(?<![^\W_])"
        after = "" if one.is_prefix or not before else r"(?![^\W_])"
        patterns.append(f"{before}{re.escape(one.word)}{after}")
    return re.compile("|".join(patterns)) if patterns else None


def _around(text: str, place: int) -> str:
    start = max(0, place - _BEFORE)
    while 0 < start < place and not text[start - 1].isspace():
        start += 1
    shown = plain(text[start : start + 2 * LENGTH], length=LENGTH)
    return f"…{shown}" if start else shown
