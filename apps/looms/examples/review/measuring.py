"""A text in numbers, and what a machine can find fault with."""

import re

from .schemas import Measures, Request

LONG_SENTENCE = 30
WORDS_A_MINUTE = 200
#: Findings that are shown.
SHOWN = 20

_WORD = re.compile(r"\w[\w'’-]*")
_SENTENCE_END = re.compile(r"(?<=[.!?…])\s+|\n{2,}")
_DOUBLED = re.compile(r"\b(\w+)\s+\1\b", re.IGNORECASE)


def measure(text: str) -> Measures:
    lengths = [len(words) for words in _sentences(text)]
    return Measures(
        words=sum(lengths),
        sentences=len(lengths),
        longest_sentence=max(lengths, default=0),
        minutes=-(-sum(lengths) // WORDS_A_MINUTE),
    )


def find(text: str, request: Request) -> list[str]:
    """What to look at, a line each."""
    found = []
    words = measure(text).words
    if request.max_words is not None and words > request.max_words:
        found.append(f"It has {words} words; it may have {request.max_words}.")
    for word in request.avoid:
        times = len(re.findall(rf"(?<!\w){re.escape(word)}(?!\w)", text, re.IGNORECASE))
        if times:
            found.append(f"“{word}” should not be in it; it is there {_times(times)}.")
    for doubled in _DOUBLED.finditer(text):
        found.append(f"“{' '.join(doubled[0].split())}”: the same word twice.")
    for sentence in _sentences(text):
        if len(sentence) > LONG_SENTENCE:
            found.append(f"A sentence of {len(sentence)} words: “{' '.join(sentence[:6])} …”")
    return found if len(found) <= SHOWN else [*found[:SHOWN], f"And {len(found) - SHOWN} more."]


def _sentences(text: str) -> list[list[str]]:
    """The words of each sentence."""
    sentences = (_WORD.findall(sentence) for sentence in _SENTENCE_END.split(text))
    return [words for words in sentences if words]


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"
