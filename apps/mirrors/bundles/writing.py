"""Writing a bundle: the same contents give the same bytes (M1)."""

from __future__ import annotations

import hashlib
import os
import tempfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from apps.core import json_text
from apps.core.errors import ErrorCode, LoomError
from apps.mirrors.bundles import zipped
from apps.mirrors.bundles.layout import CHUNK, FORMAT, LINE_FILES, MANIFEST, RELEASE_FOLDER, VERSION
from apps.mirrors.bundles.lines import Manifest, manifest_digest
from apps.mirrors.bundles.reading import Bundle
from apps.mirrors.bundles.taking import Progress, no_progress, verified

#: One line as its wire members.
Line = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Subject:
    """What the Mirror is of; ``event_seq`` is the number of the event that made the boundary."""

    trace_id: str
    run_id: str
    loom_name: str
    release_digest: str
    boundary: int
    event_seq: int


@dataclass(frozen=True, slots=True)
class _Written:
    path: str
    size: int
    sha256: str
    crc: int
    lines: int | None

    def to_wire(self) -> dict[str, Any]:
        return {"path": self.path, "size": self.size, "sha256": self.sha256, "lines": self.lines}


def write_bundle(
    out: BinaryIO,
    subject: Subject,
    lines: Mapping[str, Iterable[Line]],
    release_files: Mapping[str, bytes],
    *,
    progress: Progress = no_progress,
) -> Manifest:
    """Write a zip to ``out``.  ``lines``: the name of each file of JSON Lines → its lines, in order.

    Holds one line at a time; each of ``lines`` is read once, in the order of the names.
    """
    with tempfile.TemporaryFile() as spool:
        written = [_spool(spool, name, _texts(lines.get(name, ())), progress) for name in LINE_FILES]
        for path, content in sorted(release_files.items()):
            written.append(_spool(spool, RELEASE_FOLDER + path, iter([content]), progress, counted=False))
        order = sorted(range(len(written)), key=lambda n: written[n].path)
        offsets = _offsets(written)
        members = _manifest(subject, [written[n] for n in order])
        text = json_text.canonical(members)
        files = [(MANIFEST, len(text), zlib.crc32(text))]
        files += [(written[n].path, written[n].size, written[n].crc) for n in order]
        placed = zipped.place(files)
        out.write(placed[0].header + text)
        for member, number in zip(placed[1:], order, strict=True):
            out.write(member.header)
            spool.seek(offsets[number])
            _copy(spool, out, member.size)
        out.write(zipped.ending(placed))
    return Manifest.model_validate(members, by_alias=True, by_name=False)


def _texts(lines: Iterable[Line]) -> Iterator[bytes]:
    for line in lines:
        yield json_text.canonical(line) + b"\n"


def _spool(spool: BinaryIO, path: str, parts: Iterator[bytes], progress: Progress, *, counted: bool = True) -> _Written:
    digest, crc, size, number = hashlib.sha256(), 0, 0, 0
    for part in parts:
        digest.update(part)
        crc = zlib.crc32(part, crc)
        size += len(part)
        number += 1
        spool.write(part)
        progress(len(part))
    return _Written(path, size, digest.hexdigest(), crc, number if counted else None)


def _offsets(written: list[_Written]) -> list[int]:
    offsets, at = [], 0
    for one in written:
        offsets.append(at)
        at += one.size
    return offsets


def _manifest(subject: Subject, entries: list[_Written]) -> dict[str, Any]:
    counts = {one.path.removesuffix(".jsonl"): one.lines for one in entries if one.lines is not None}
    members: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "traceId": subject.trace_id,
        "runId": subject.run_id,
        "loomName": subject.loom_name,
        "releaseDigest": subject.release_digest,
        "boundary": subject.boundary,
        "eventSeq": subject.event_seq,
        "counts": {**counts, "release-files": len(entries) - len(counts)},
        "entries": [one.to_wire() for one in entries],
    }
    return {**members, "digest": manifest_digest(members)}


def _copy(source: BinaryIO, out: BinaryIO, size: int) -> None:
    while size:
        data = source.read(min(CHUNK, size))
        out.write(data)
        size -= len(data)


def write_to_path(bundle: Bundle, zip_file: BinaryIO, target: Path) -> None:
    """Put a bundle where a person asked: a file when ``target`` ends in ``.zip``, else a new folder.

    Nothing that is there already is written into or replaced (FR-H7): ``CONFLICT``.  Raises ``OSError``.
    """
    if target.suffix.lower() == ".zip":
        with _new_file(target) as out:
            zip_file.seek(0)
            while data := zip_file.read(CHUNK):
                out.write(data)
    else:
        _write_folder(bundle, target)


def _taken(target: Path) -> LoomError:
    return LoomError(ErrorCode.CONFLICT, f"There is something called {target.name} already; name another place.")


@contextmanager
def _new_file(target: Path) -> Iterator[BinaryIO]:
    """A file that appears whole or not at all, and never in the place of another."""
    handle, name = tempfile.mkstemp(prefix=".mirror-", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as out:
            yield out
            out.flush()
            os.fsync(out.fileno())
        os.chmod(name, 0o644)
        try:
            _name(name, target)
        except FileExistsError:
            raise _taken(target) from None
    finally:
        with suppress(FileNotFoundError):
            os.unlink(name)


def _name(file: str, target: Path) -> None:
    """Give a finished file its name.  Raises ``FileExistsError`` where something is."""
    try:
        # Unlike a renaming, it fails where something is.
        os.link(file, target)
    except FileExistsError:
        raise
    except OSError:
        # Sticks and shares often have no hard links: take the name first, then put the file in its place.
        os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644))
        os.replace(file, target)


def _write_folder(bundle: Bundle, target: Path) -> None:
    try:
        target.mkdir(mode=0o755)
    except FileExistsError:
        raise _taken(target) from None
    # The folder is new, but another may write here too: every name is opened beneath what was just made.
    root = os.open(target, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        for entry in bundle.manifest.entries:
            _write_entry(root, entry.path, verified(entry, bundle.source.chunks(entry.path)))
        # Last: without it, it is no Mirror.
        _write_entry(root, MANIFEST, bundle.source.chunks(MANIFEST))
    finally:
        os.close(root)


def _write_entry(root: int, path: str, chunks: Iterator[bytes]) -> None:
    *folders, name = path.split("/")
    at = os.dup(root)
    try:
        for part in folders:
            with suppress(FileExistsError):
                os.mkdir(part, 0o755, dir_fd=at)
            below = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=at)
            os.close(at)
            at = below
        handle = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644, dir_fd=at)
        with os.fdopen(handle, "wb") as out:
            for data in chunks:
                out.write(data)
    finally:
        os.close(at)
