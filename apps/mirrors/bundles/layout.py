"""What a bundle consists of: its entries, their names, and how large they may be (M1, K20, K21)."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass

FORMAT = "loomsvc-mirror"
VERSION = 1
MANIFEST = "manifest.json"
RELEASE_FOLDER = "release/"

#: Every file of JSON Lines, in the order of their names; all are there, empty ones too.
LINE_FILES = (
    "actions.jsonl",
    "agent-calls.jsonl",
    "artifacts.jsonl",
    "events.jsonl",
    "log.jsonl",
    "operations.jsonl",
    "records.jsonl",
    "release.jsonl",
    "run.jsonl",
    "states.jsonl",
    "steps.jsonl",
    "tool-receipts.jsonl",
)

#: A Release has at most this many files (as a Loom's folder), and a path inside it this many characters.
MAX_RELEASE_FILES = 500
MAX_RELEASE_BYTES = 5 * 1024 * 1024
MAX_PATH = 200
MAX_ENTRIES = len(LINE_FILES) + MAX_RELEASE_FILES
MAX_MANIFEST_BYTES = 512 * 1024
#: What a line may have beside its values.
LINE_OVERHEAD = 256 * 1024

#: Bytes that are held at once while entries are copied.
CHUNK = 64 * 1024

_ONE_VALUE = frozenset({"artifacts.jsonl", "records.jsonl", "states.jsonl"})
_DRIVE = re.compile(r"[A-Za-z]:")


@dataclass(frozen=True, slots=True)
class Limits:
    """How large a bundle and a JSON value in it may be, in bytes."""

    bundle_bytes: int
    value_bytes: int

    @property
    def marks(self) -> int:
        """How many values a bundle may have: many small ones take longer to read than a large one."""
        return self.bundle_bytes // 16

    def line_bytes(self, name: str) -> int:
        """The longest line of a file: some have two values, as an input and an output."""
        return (1 if name in _ONE_VALUE else 2) * self.value_bytes + LINE_OVERHEAD


def path_problem(path: str) -> str | None:
    """What keeps ``path`` from being the name of an entry on every system; ``None`` when nothing does."""
    if not path or len(path) > MAX_PATH + len(RELEASE_FOLDER):
        return f"a name has 1 to {MAX_PATH} characters"
    if not path.isprintable() or "\\" in path:
        return "a name has printable characters only, and / between folders"
    if path.startswith("/") or _DRIVE.match(path.removeprefix(RELEASE_FOLDER)):
        return "a name is relative"
    if any(part in ("", ".", "..") for part in path.split("/")):
        return "a name has no empty part, no . and no .."
    if unicodedata.normalize("NFC", path) != path:
        return "a name is in Unicode's composed form (NFC)"
    if path not in LINE_FILES and not path.startswith(RELEASE_FOLDER):
        return "the format has no such entry"
    return None


def names_problem(paths: Iterable[str]) -> str | None:
    """What is wrong with the names of all entries together; each one was found good."""
    folded: set[str] = set()
    files: set[str] = set()
    folders: set[str] = set()
    for path in paths:
        key = path.casefold()
        if key in folded:
            return f"{path} is there twice, or differs from another name in case only"
        folded.add(key)
        files.add(key)
        parts = key.split("/")
        folders.update("/".join(parts[:depth]) for depth in range(1, len(parts)))
    both = sorted(files & folders)
    if both:
        return f"{both[0]} is a file and a folder"
    missing = sorted(set(LINE_FILES) - files)
    return f"{missing[0]} is missing" if missing else None
