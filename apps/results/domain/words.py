"""The words of a result, and of a query: what full text search compares, the same on every database.

Both databases get the words ready cut, one after another as ``<word><word>``, so neither's own idea of a language
decides what is found.  A word is what stands between spaces and punctuation, in lower case, its characters in
Unicode's compatibility form.  Scripts that put no spaces between words are cut into pairs of characters, and a
symbol, such as an emoji, is a word by itself.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

#: Characters of ``<word><word>`` that are kept of one result; what comes later in it is not found.
MOST_CHARACTERS = 100_000
#: A longer word is cut; so is the same word of a query.
LONGEST_WORD = 64
#: Words of a query that are looked for; later ones are not.
MOST_QUERY_WORDS = 32
#: From this length on a word of a query is also found as the beginning of a longer one.
PREFIX_FROM = 4
#: Chinese, Japanese, Thai, Lao, Burmese and Khmer, which are written without spaces.
_UNSPACED = re.compile(
    "([\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003ffff]+)"
)


class _Cutting(dict[int, str]):
    """What a character becomes before a text is split at its spaces; found out once for each character."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        category = unicodedata.category(character)
        if character.isalnum() or category in ("Mn", "Mc"):
            kept = "" if "\ufe00" <= character <= "\ufe0f" else character
        else:
            kept = f" {character} " if category == "So" else " "
        self[code] = kept
        return kept


_CUTTING = _Cutting()


def split(text: str, *, is_query: bool = False) -> Iterator[str]:
    """The words of ``text``, in their order."""
    for word in unicodedata.normalize("NFKC", text).casefold().translate(_CUTTING).split():
        if word.isascii():
            yield word[:LONGEST_WORD]
        else:
            for index, part in enumerate(_UNSPACED.split(word)):
                if index % 2:
                    yield from _pairs(part, is_query)
                elif part:
                    yield part[:LONGEST_WORD]


def _pairs(run: str, is_query: bool) -> Iterator[str]:
    for first, second in pairwise(run):
        yield first + second
    # So that each character of a text begins a word; the last one of a query has been asked for in its pair.
    if len(run) == 1 or not is_query:
        yield run[-1]


def texts_of(data: Any) -> Iterator[str]:
    """The strings and numbers in JSON ``data``, in document order; names of members are no content."""
    stack = [data]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, dict):
            stack.extend(reversed(item.values()))
        elif isinstance(item, list | tuple):
            stack.extend(reversed(item))
        elif isinstance(item, int | float) and not isinstance(item, bool):
            yield str(item)


def stored(texts: Iterable[str]) -> str:
    """``<word><word>…`` of ``texts``, within :data:`MOST_CHARACTERS`."""
    kept: list[str] = []
    left = MOST_CHARACTERS
    for text in texts:
        for word in split(text[:left]):
            left -= len(word) + 2
            if left < 0:
                return "".join(kept)
            kept.append(f"<{word}>")
    return "".join(kept)


@dataclass(frozen=True, slots=True)
class Sought:
    """A word of a query; ``is_prefix``: a longer word that begins with it is found too."""

    word: str
    is_prefix: bool

    @property
    def pattern(self) -> str:
        """What stands in :func:`stored` text for each time that the word occurs."""
        return f"<{self.word}" if self.is_prefix else f"<{self.word}>"


def sought(query: str) -> tuple[Sought, ...]:
    """The words to look for, each once.  Nothing in a query is an operator."""
    found = list(dict.fromkeys(split(query, is_query=True)))[:MOST_QUERY_WORDS]
    return tuple(Sought(word, len(word) >= PREFIX_FROM or _is_half_a_pair(word)) for word in found)


def _is_half_a_pair(word: str) -> bool:
    return len(word) == 1 and is_unspaced(word)


def is_unspaced(word: str) -> bool:
    """Whether ``word`` is cut out of a script without spaces."""
    return _UNSPACED.fullmatch(word) is not None
