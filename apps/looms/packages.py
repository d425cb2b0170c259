"""A Loom package as files: reading a folder within bounds, its digest, and unpacking it again.

The digest covers paths and bytes and the versions of what the Loom requires: the same content gives
the same Release wherever it lies.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from apps.core import json_text
from apps.core.conf import private_folder
from apps.looms.diagnostics import Diagnostic
from apps.looms.messages import printable

MAX_FILES = 500
MAX_PACKAGE_BYTES = 5 * 1024 * 1024
MAX_PATH = 200
_CACHES = frozenset({"__pycache__", "node_modules"})
_CACHE_SUFFIXES = (".pyc", ".pyo")

#: Path inside the package (with ``/``) → content, sorted by path.
PackageFiles = Mapping[str, bytes]
#: What changes when a file does: path, size, times and inode of each.
Signature = tuple[tuple[str, int, int, int, int], ...]


def is_left_out(name: str) -> bool:
    """Caches and hidden files are no part of a package."""
    return name.startswith(".") or name in _CACHES or name.endswith(_CACHE_SUFFIXES)


def _entries(folder: Path, inside: str = "") -> Iterator[tuple[str, os.DirEntry[str]]]:
    with os.scandir(folder / inside) as found:
        entries = sorted(found, key=lambda entry: entry.name)
    for entry in entries:
        if is_left_out(entry.name):
            continue
        path = f"{inside}{entry.name}"
        if entry.is_dir(follow_symlinks=False):
            yield from _entries(folder, path + "/")
        else:
            yield path, entry


def signature(folder: Path) -> Signature:
    """Cheap to take, and different after any change of the folder's content.  Raises ``OSError``."""
    found: list[tuple[str, int, int, int, int]] = []
    for path, entry in _entries(folder):
        try:
            status = entry.stat()
        except OSError:
            # A link to nothing: it changes when it leads somewhere.
            found.append((path, -1, 0, 0, 0))
            continue
        found.append((path, status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino))
        if len(found) > MAX_FILES:
            break
    return tuple(found)


def read_folder(folder: Path) -> tuple[PackageFiles, list[Diagnostic]]:
    """The files of a Loom folder, and what keeps it from being one.  Raises ``OSError``."""
    files: dict[str, bytes] = {}
    problems: list[Diagnostic] = []
    room = MAX_PACKAGE_BYTES
    for path, entry in _entries(folder):
        content = _read(Path(entry.path), room)
        if len(files) >= MAX_FILES:
            problem = (f"The folder has more than {MAX_FILES} files.", "Move what is not part of it.")
        elif len(path) > MAX_PATH or not path.isprintable() or "\\" in path:
            problem = ("This name is not portable.", f"Use at most {MAX_PATH} printable characters.")
        elif entry.is_symlink() and not Path(entry.path).resolve().is_relative_to(folder.resolve()):
            problem = ("This link leads out of the folder.", "Put a copy of the file here.")
        elif content is None:
            problem = ("This is no readable regular file.", "Remove it, or put a copy of it here.")
        elif len(content) > room:
            megabytes = MAX_PACKAGE_BYTES // 1024 // 1024
            problem = (f"The folder holds more than {megabytes} MiB.", "Move what is not part of it.")
        else:
            room -= len(content)
            files[path] = content
            continue
        problems.append(Diagnostic.error(printable(path), None, *problem))
        if len(files) >= MAX_FILES or (content is not None and len(content) > room):
            break
    return dict(sorted(files.items())), problems


def _read(path: Path, room: int) -> bytes | None:
    """At most one byte more than there is ``room`` for; ``None`` for what is no regular file."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            return None
        with path.open("rb") as file:
            return file.read(room + 1)
    except OSError:
        return None


def digest_of(files: PackageFiles, requires: Mapping[str, str]) -> str:
    """The Release digest: SHA-256, 64 hex digits."""
    hashes = {path: hashlib.sha256(content).hexdigest() for path, content in files.items()}
    return json_text.digest({"files": hashes, "requires": dict(requires)})


def unpack(files: PackageFiles, target: Path) -> None:
    """Make ``target`` hold exactly ``files``; safe while other processes do the same.

    A folder with other content (cut off, or changed by someone) is replaced.  Raises ``OSError``.
    """
    if _holds(target, files):
        return
    private_folder(target.parent)
    fresh = Path(tempfile.mkdtemp(prefix=".unpacking-", dir=target.parent))
    try:
        for path, content in files.items():
            file = fresh / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
        _move_into_place(fresh, target, files)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _move_into_place(fresh: Path, target: Path, files: PackageFiles) -> None:
    for _ in range(10):
        try:
            # Fails when a folder with content is there: renaming never mixes two of them.
            fresh.rename(target)
            return
        except OSError:
            if _holds(target, files):
                return
        discarded = Path(tempfile.mkdtemp(prefix=".discarded-", dir=target.parent))
        try:
            target.rename(discarded / "old")
        except FileNotFoundError:
            pass
        finally:
            shutil.rmtree(discarded, ignore_errors=True)
    raise OSError(f"release folder {target.name} cannot be put into place")


def _holds(target: Path, files: PackageFiles) -> bool:
    if not target.is_dir():
        return False
    found, problems = read_folder(target)
    return not problems and found == dict(files)
