"""Looking into a folder without ever leaving it."""

import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

from .schemas import File

MAX_FILES = 3000
MAX_PATH = 200
_BLOCK = 1024 * 1024


class FolderRefused(Exception):
    """The folder may not be looked at, or is none."""


def allowed_folder(folder: str, roots: list[Path]) -> Path:
    """The folder with links resolved, if it lies in one of ``roots``."""
    if not roots:
        raise FolderRefused("No folder may be looked at: set LOOM_INVENTORY_ROOTS to those that may.")
    if not os.path.isabs(folder) or "\0" in folder:
        raise FolderRefused("Give the folder as an absolute path.")
    resolved = Path(folder).resolve()
    if not any(resolved.is_relative_to(root) for root in roots):
        raise FolderRefused("This folder is in none of the folders that LOOM_INVENTORY_ROOTS allows.")
    if not resolved.is_dir():
        raise FolderRefused("There is no such folder.")
    return resolved


def list_folder(folder: Path, *, include_hidden: bool = False) -> tuple[list[File], int]:
    """Regular files by path, and how many entries were skipped; links are not followed.

    What is hidden is left out without a word unless asked for: caches and histories are seldom meant.
    """
    files: list[File] = []
    skipped = 0
    for path, entry in _entries(folder, "", include_hidden):
        if (
            entry is None
            or entry.is_symlink()
            or not entry.is_file(follow_symlinks=False)
            or len(files) >= MAX_FILES
            or len(path) > MAX_PATH
            or not path.isprintable()
        ):
            skipped += 1
        else:
            files.append(File(path=path, size=entry.stat(follow_symlinks=False).st_size))
    return sorted(files, key=lambda file: file.path), skipped


def _entries(folder: Path, inside: str, include_hidden: bool) -> Iterator[tuple[str, "os.DirEntry[str] | None"]]:
    try:
        with os.scandir(folder / inside) as found:
            entries = sorted(found, key=lambda entry: entry.name)
    except PermissionError:
        yield inside, None
        return
    for entry in entries:
        if entry.name.startswith(".") and not include_hidden:
            continue
        path = f"{inside}{entry.name}"
        if entry.is_dir(follow_symlinks=False):
            yield from _entries(folder, path + "/", include_hidden)
        else:
            yield path, entry


def hash_file(folder: Path, path: str, is_cancelled: Callable[[], bool]) -> str | None:
    """SHA-256 of a file; ``None`` when it went away, became a link, or cannot be read."""
    file = folder / path
    if not file.parent.resolve().is_relative_to(folder):
        return None
    try:
        descriptor = os.open(file, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except OSError:
        return None
    digest = hashlib.sha256()
    with os.fdopen(descriptor, "rb") as content:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        while block := content.read(_BLOCK):
            digest.update(block)
            if is_cancelled():
                return None
    return digest.hexdigest()
