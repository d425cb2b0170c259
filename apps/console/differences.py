"""Two texts or two JSON values side by side: lines that came and went, and the JSON Patch between them."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jsonpatch

#: What is longer is not compared line by line: it would take too long to compute, and to read.
MOST_LINES = 8000
#: Lines of one comparison that are shown.
MOST_SHOWN = 1500
MOST_PATCH_STEPS = 500
#: Characters of a value that a patch step shows; the text comparison has the whole.
LONGEST_VALUE = 300


@dataclass(frozen=True, slots=True)
class DiffLine:
    """``sign`` is ``+``, ``-``, `` `` or ``@`` for a gap; the sign is shown, so colour is not needed."""

    sign: str
    text: str

    @property
    def css(self) -> str:
        return {"+": "added", "-": "removed", "@": "gap"}.get(self.sign, "same")

    @property
    def words(self) -> str:
        """For who cannot see the sign."""
        return {"+": "added", "-": "removed"}.get(self.sign, "")


@dataclass(frozen=True, slots=True)
class TextDiff:
    """``said`` tells what is not shown, or why nothing is."""

    lines: tuple[DiffLine, ...]
    added: int
    removed: int
    said: str | None = None

    @property
    def is_same(self) -> bool:
        return not self.lines and self.said is None


@dataclass(frozen=True, slots=True)
class FileDiff:
    """A file of two Releases; ``change`` is ``added``, ``removed`` or ``changed``."""

    path: str
    change: str
    diff: TextDiff


def compare_lines(old: Sequence[str], new: Sequence[str], *, context: int = 3) -> TextDiff:
    """A unified comparison; equal sequences have no lines."""
    if list(old) == list(new):
        return TextDiff((), 0, 0)
    if len(old) > MOST_LINES or len(new) > MOST_LINES:
        return TextDiff((), 0, 0, f"Too long to compare line by line: {len(old):,} and {len(new):,} lines.")
    lines = list(_unified(old, new, context))
    added = sum(line.sign == "+" for line in lines)
    removed = sum(line.sign == "-" for line in lines)
    said = f"The first {MOST_SHOWN:,} of {len(lines):,} lines." if len(lines) > MOST_SHOWN else None
    return TextDiff(tuple(lines[:MOST_SHOWN]), added, removed, said)


def _unified(old: Sequence[str], new: Sequence[str], context: int) -> Iterator[DiffLine]:
    for group in difflib.SequenceMatcher(None, old, new, autojunk=True).get_grouped_opcodes(context):
        first, last = group[0], group[-1]
        yield DiffLine("@", f"lines {first[1] + 1}–{last[2]} → {first[3] + 1}–{last[4]}")
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                yield from (DiffLine(" ", line) for line in old[i1:i2])
                continue
            yield from (DiffLine("-", line) for line in old[i1:i2])
            yield from (DiffLine("+", line) for line in new[j1:j2])


def compare_files(old: Mapping[str, bytes], new: Mapping[str, bytes]) -> list[FileDiff]:
    """What differs between two packages, by path."""
    found = []
    for path in sorted(old.keys() | new.keys()):
        before, after = old.get(path), new.get(path)
        if before != after:
            change = "added" if before is None else "removed" if after is None else "changed"
            found.append(FileDiff(path, change, _compare_bytes(before or b"", after or b"")))
    return found


def _compare_bytes(old: bytes, new: bytes) -> TextDiff:
    try:
        return compare_lines(old.decode("utf-8").splitlines(), new.decode("utf-8").splitlines())
    except UnicodeDecodeError:
        return TextDiff((), 0, 0, f"No text: {len(old):,} and {len(new):,} bytes.")


def readable(value: Any) -> list[str]:
    """JSON in lines to read and compare: keys in order, texts of several lines as lines below their key."""
    if isinstance(value, str):
        return value.splitlines()
    return list(_readable(value, ""))


def _readable(value: Any, indent: str) -> Iterator[str]:
    if isinstance(value, dict) and value:
        for key in sorted(value):
            yield from _member(f"{indent}{key}:", value[key], indent)
    elif isinstance(value, list) and value:
        for item in value:
            yield from _member(f"{indent}-", item, indent)
    else:
        yield indent + json.dumps(value, ensure_ascii=False)


def _member(head: str, value: Any, indent: str) -> Iterator[str]:
    if isinstance(value, str) and "\n" in value:
        yield f"{head} |"
        yield from (f"{indent}  {line}" for line in value.splitlines())
    elif isinstance(value, (dict, list)) and value:
        yield head
        yield from _readable(value, indent + "  ")
    else:
        yield f"{head} {json.dumps(value, ensure_ascii=False)}"


@dataclass(frozen=True, slots=True)
class PatchStep:
    """One step of a JSON Patch; ``value`` is JSON text, cut where it is long, empty where there is none."""

    op: str
    path: str
    source: str
    value: str


@dataclass(frozen=True, slots=True)
class Patch:
    """The RFC 6902 steps from one value to another, ``number`` in all; ``said`` tells what is not shown."""

    steps: tuple[PatchStep, ...]
    number: int
    said: str | None = None


def patch_between(old: Any, new: Any) -> Patch:
    """The JSON Patch that makes ``old`` into ``new``; long ones are cut, and say so."""
    steps = jsonpatch.make_patch(old, new).patch
    said = f"The first {MOST_PATCH_STEPS:,} of {len(steps):,} steps." if len(steps) > MOST_PATCH_STEPS else None
    return Patch(tuple(map(_step, steps[:MOST_PATCH_STEPS])), len(steps), said)


def _step(step: dict[str, Any]) -> PatchStep:
    value = json.dumps(step["value"], ensure_ascii=False) if "value" in step else ""
    shown = value if len(value) <= LONGEST_VALUE else value[: LONGEST_VALUE - 1] + "…"
    return PatchStep(step["op"], step["path"], step.get("from", ""), shown)
