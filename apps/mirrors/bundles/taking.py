"""Taking a bundle in: every byte is copied and compared once, and only that copy is used from then on (M3, M7)."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

from pydantic import ValidationError

from apps.mirrors.bundles import canonical, zipped
from apps.mirrors.bundles.layout import (
    FORMAT,
    LINE_FILES,
    MANIFEST,
    MAX_ENTRIES,
    MAX_MANIFEST_BYTES,
    VERSION,
    names_problem,
    path_problem,
)
from apps.mirrors.bundles.lines import Entry, Manifest, manifest_digest
from apps.mirrors.bundles.refusals import MirrorInvalid
from apps.mirrors.bundles.sources import Source

#: Is told how many bytes have been done since it was told last.
Progress = Callable[[int], None]


def no_progress(_: int) -> None:
    """Tells nobody."""


def read_manifest(source: Source) -> tuple[Manifest, bytes]:
    """The manifest, checked in itself and against the names and sizes that are there."""
    size = source.sizes.get(MANIFEST)
    if size is None:
        raise MirrorInvalid("it is missing", entry=MANIFEST)
    if size > MAX_MANIFEST_BYTES:
        raise MirrorInvalid(f"it is larger than {MAX_MANIFEST_BYTES} bytes", entry=MANIFEST)
    text = _joined(source.chunks(MANIFEST), MAX_MANIFEST_BYTES)
    try:
        members = canonical.read(text)
    except canonical.NotCanonical as error:
        raise MirrorInvalid(str(error), entry=MANIFEST) from None
    manifest = _manifest(members)
    if manifest_digest(members) != manifest.digest:
        raise MirrorInvalid("its digest is another than it says", entry=MANIFEST)
    _check_entries(manifest, source)
    return manifest, text


def _manifest(members: Any) -> Manifest:
    if not isinstance(members, dict) or members.get("format") != FORMAT:
        raise MirrorInvalid("it is no manifest of a Mirror", entry=MANIFEST)
    version = members.get("version")
    if version != VERSION or isinstance(version, bool):
        newer = isinstance(version, int) and version > VERSION
        cure = "a newer loomsvc made it; take it there" if newer else f"this service reads version {VERSION}"
        raise MirrorInvalid(f"its format has another version: {cure}", entry=MANIFEST)
    try:
        return Manifest.model_validate(members, by_alias=True, by_name=False)
    except ValidationError as error:
        raise MirrorInvalid(f"{shape_problem(error)}", entry=MANIFEST) from None


def shape_problem(error: ValidationError) -> str:
    """The first place at which a value has not the shape that it must have."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    return f"{'.'.join(map(str, first['loc'])) or 'it'}: {first['msg']}"


def _check_entries(manifest: Manifest, source: Source) -> None:
    paths = [entry.path for entry in manifest.entries]
    if len(paths) > MAX_ENTRIES:
        raise MirrorInvalid(f"it lists more than {MAX_ENTRIES} entries", entry=MANIFEST)
    for path in paths:
        if problem := path_problem(path):
            raise MirrorInvalid(problem, entry=path)
    if problem := names_problem(paths):
        raise MirrorInvalid(problem, entry=MANIFEST)
    if paths != sorted(paths):
        raise MirrorInvalid("its entries are not in the order of their names", entry=MANIFEST)
    for entry in manifest.entries:
        if entry.path not in source.sizes:
            raise MirrorInvalid("it is missing", entry=entry.path)
        if entry.size != source.sizes[entry.path]:
            raise MirrorInvalid("its size is another than the manifest says", entry=entry.path)
        if (entry.lines is None) == (entry.path in LINE_FILES):
            raise MirrorInvalid("the manifest counts lines in JSON Lines, and only there", entry=entry.path)
    if extra := [name for name in source.sizes if name != MANIFEST and name not in set(paths)]:
        raise MirrorInvalid("the manifest does not list it", entry=extra[0])
    if list(source.sizes) != [MANIFEST, *paths]:
        raise MirrorInvalid("its entries are not in the manifest's order")


def take(source: Source, out: BinaryIO, *, progress: Progress = no_progress) -> Manifest:
    """Copy a bundle into ``out`` as a zip, each byte compared with the manifest.  Raises :class:`MirrorInvalid`.

    What ``out`` holds afterwards is what the manifest promises, whoever changes the source meanwhile; its contents
    are still to be checked.
    """
    manifest, text = read_manifest(source)
    placed = [(MANIFEST, len(text), zlib.crc32(text))]
    out.write(zipped.place(placed)[0].header + text)
    for entry in manifest.entries:
        # The sum of bytes is part of the header, which stands before them.
        at = out.tell()
        blank = zipped.Member(entry.path, entry.size, 0, at)
        out.write(blank.header)
        crc = 0
        for data in verified(entry, source.chunks(entry.path)):
            crc = zlib.crc32(data, crc)
            out.write(data)
            progress(len(data))
        out.seek(at)
        out.write(zipped.Member(entry.path, entry.size, crc, at).header)
        out.seek(0, 2)
        placed.append((entry.path, entry.size, crc))
    out.write(zipped.ending(zipped.place(placed)))
    return manifest


def verified(entry: Entry, chunks: Iterator[bytes]) -> Iterator[bytes]:
    """``chunks`` as they come; raises at once when there are more than there should be, or at the end."""
    digest, left = hashlib.sha256(), entry.size
    for data in chunks:
        left -= len(data)
        if left < 0:
            break
        digest.update(data)
        yield data
    if left or digest.hexdigest() != entry.sha256:
        raise MirrorInvalid("its bytes are not those that the manifest names", entry=entry.path)


def _joined(chunks: Iterator[bytes], limit: int) -> bytes:
    out = b""
    for data in chunks:
        out += data
        if len(out) > limit:
            raise MirrorInvalid(f"it is larger than {limit} bytes", entry=MANIFEST)
    return out
