"""Where a bundle is read from: a ``.zip`` file or a folder, both taken as a stranger's (K20, FR-H7).

A source gives its entries' names and sizes, and each entry's bytes once.  It believes nothing: whoever reads
compares sizes and digests.
"""

from __future__ import annotations

import errno
import os
import stat
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Protocol

from apps.mirrors.bundles import zipped
from apps.mirrors.bundles.layout import CHUNK, MANIFEST, MAX_ENTRIES, Limits, path_problem
from apps.mirrors.bundles.refusals import MirrorInvalid

_MANIFEST_ROOM = 2


class Source(Protocol):
    """A bundle's bytes."""

    #: Name → size in bytes, in the order in which they stand.
    sizes: Mapping[str, int]

    def chunks(self, name: str) -> Iterator[bytes]:
        """The bytes of one entry, at most :data:`CHUNK` at once.  Raises :class:`MirrorInvalid`."""


class ZipSource:
    """The entries of a zip file that is open."""

    def __init__(self, file: BinaryIO, size: int, limits: Limits) -> None:
        if size > limits.bundle_bytes:
            raise MirrorInvalid(f"it has {size} bytes, more than the {limits.bundle_bytes} that are taken")
        self._file = file
        self.members = {member.name: member for member in zipped.find_members(file, size)}
        self.sizes: Mapping[str, int] = {name: member.size for name, member in self.members.items()}

    def chunks(self, name: str) -> Iterator[bytes]:
        member = self.members[name]
        zipped.check_header(self._file, member)
        left, crc = member.size, 0
        while left:
            data = self._file.read(min(CHUNK, left))
            if not data:
                raise MirrorInvalid("it is cut off", entry=name)
            left -= len(data)
            crc = zlib.crc32(data, crc)
            yield data
        if crc != member.crc:
            raise MirrorInvalid("its bytes are not those that its directory counts", entry=name)


class FolderSource:
    """The files of a folder.  No link is followed, and each file is opened beneath the folder that was opened."""

    def __init__(self, descriptor: int, limits: Limits) -> None:
        self._root = descriptor
        self._room = limits.bundle_bytes
        self._left = MAX_ENTRIES + _MANIFEST_ROOM
        found = dict(sorted(self._walk(descriptor, "")))
        # As everywhere, the manifest comes first.
        first = {MANIFEST: found.pop(MANIFEST)} if MANIFEST in found else {}
        self.sizes: Mapping[str, int] = {**first, **found}

    def _walk(self, folder: int, inside: str) -> Iterator[tuple[str, int]]:
        empty = True
        with os.scandir(folder) as entries:
            for entry in entries:
                empty = False
                path = inside + entry.name
                self._left -= 1
                problem = None if path == MANIFEST else _inner_problem(path, is_folder=entry.is_dir())
                if self._left < 0:
                    raise MirrorInvalid(f"the folder holds more than {MAX_ENTRIES} entries")
                if problem:
                    raise MirrorInvalid(problem, entry=path)
                if entry.is_dir(follow_symlinks=False):
                    below = _open_folder(entry.name, folder, path)
                    try:
                        yield from self._walk(below, path + "/")
                    finally:
                        os.close(below)
                    continue
                size = _regular_size(entry.stat(follow_symlinks=False), path)
                self._room -= size
                if self._room < 0:
                    raise MirrorInvalid("the folder holds more bytes than are taken")
                yield path, size
        if empty and inside:
            raise MirrorInvalid("a folder without files belongs to no entry", entry=inside.removesuffix("/"))

    def chunks(self, name: str) -> Iterator[bytes]:
        *folders, last = name.split("/")
        at = os.dup(self._root)
        try:
            for part in folders:
                below = _open_folder(part, at, name)
                os.close(at)
                at = below
            descriptor = _open_entry(last, at, name)
        finally:
            os.close(at)
        with os.fdopen(descriptor, "rb", buffering=0) as file:
            _regular_size(os.fstat(descriptor), name)
            while data := file.read(CHUNK):
                yield data


@contextmanager
def open_source(path: Path, limits: Limits) -> Iterator[Source]:
    """A bundle at ``path``, folder or ``.zip``.  Raises :class:`MirrorInvalid` for anything else."""
    try:
        # Without O_NONBLOCK a named pipe would be waited for.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise MirrorInvalid(f"there is nothing called {path.name}") from None
    except OSError as error:
        raise MirrorInvalid(f"{path.name} cannot be read ({errno.errorcode.get(error.errno or 0, 'error')})") from None
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            yield FolderSource(descriptor, limits)
        elif stat.S_ISREG(mode):
            with os.fdopen(os.dup(descriptor), "rb") as file:
                yield ZipSource(file, os.fstat(descriptor).st_size, limits)
        else:
            raise MirrorInvalid(f"{path.name} is neither a folder nor a zip file")
    except OSError as error:
        raise MirrorInvalid(
            f"it changed or could not be read on the way ({errno.errorcode.get(error.errno or 0, 'error')})"
        ) from None
    finally:
        os.close(descriptor)


def _inner_problem(path: str, *, is_folder: bool) -> str | None:
    # A folder's own name is looked at as if a file stood in it.
    return path_problem(f"{path}/file" if is_folder else path)


def _open_folder(name: str, at: int, path: str) -> int:
    try:
        return os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
    except OSError:
        raise MirrorInvalid("a folder on the way to it is none, or a link", entry=path) from None


def _open_entry(name: str, at: int, path: str) -> int:
    try:
        return os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=at)
    except OSError:
        raise MirrorInvalid("it is a link, or cannot be read", entry=path) from None


def _regular_size(status: os.stat_result, path: str) -> int:
    if stat.S_ISLNK(status.st_mode):
        raise MirrorInvalid("it is a link", entry=path)
    if not stat.S_ISREG(status.st_mode):
        raise MirrorInvalid("it is no regular file", entry=path)
    if status.st_nlink > 1:
        raise MirrorInvalid("it has a second name elsewhere (a hard link); make a copy of the folder", entry=path)
    return status.st_size
