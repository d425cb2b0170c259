"""Taking bundles in, and keeping them as Mirrors of Projects (M1, M3, M4, M7)."""

from __future__ import annotations

import datetime as dt
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from django.db import transaction

from apps.core.caller import Caller
from apps.core.ids import new_id
from apps.mirrors import storage
from apps.mirrors.bundles.checking import Content, check_content
from apps.mirrors.bundles.reading import Bundle, open_copy
from apps.mirrors.bundles.refusals import MirrorInvalid
from apps.mirrors.bundles.sources import Source, ZipSource, open_source
from apps.mirrors.bundles.taking import Progress, no_progress, take
from apps.mirrors.models import Mirror


@dataclass(frozen=True)
class Taken:
    """A private copy of a bundle, every byte and every line of it checked."""

    bundle: Bundle
    content: Content
    file: BinaryIO
    size: int

    @property
    def digest(self) -> str:
        return self.bundle.manifest.digest


@contextmanager
def taken(source: Source, *, progress: Progress = no_progress) -> Iterator[Taken]:
    """Take a bundle in for the length of the block.  Raises :class:`MirrorInvalid`, with nothing written."""
    with tempfile.TemporaryFile() as file:
        manifest = take(source, file, progress=progress)
        size = file.tell()
        bundle = open_copy(file, size, manifest, storage.limits())
        yield Taken(bundle, check_content(bundle, progress=progress), file, size)


@contextmanager
def taken_from_path(path: Path, *, progress: Progress = no_progress) -> Iterator[Taken]:
    """The same from a folder or ``.zip`` file."""
    with open_source(path, storage.limits()) as source, taken(source, progress=progress) as found:
        yield found


@contextmanager
def taken_from_storage(digest: str, *, progress: Progress = no_progress) -> Iterator[Taken]:
    """The same from what is kept; it may have been damaged since."""
    with ExitStack() as stack:
        try:
            file, size = stack.enter_context(storage.opened(digest))
        except FileNotFoundError:
            raise MirrorInvalid("its file is missing") from None
        found = stack.enter_context(taken(ZipSource(file, size, storage.limits()), progress=progress))
        if found.digest != digest:
            raise MirrorInvalid("its file is another Mirror's")
        yield found


def mirror_id_of(*, project_id: uuid.UUID, digest: str) -> uuid.UUID:
    """The same content in the same Project is the same Mirror (M1)."""
    return uuid.uuid5(project_id, digest)


def keep_mirror(*, caller: Caller, project_id: uuid.UUID, found: Taken, kind: str, now: dt.datetime) -> Mirror:
    """The Mirror of this content in the Project; it is made where there is none, and its file made whole."""
    manifest = found.bundle.manifest
    mirror_id = mirror_id_of(project_id=project_id, digest=manifest.digest)
    known = Mirror.objects.filter(mirror_id=mirror_id).first()
    if known is not None and _is_whole(manifest.digest, found.size):
        return known
    # First the file: a Mirror that is listed can be read.
    storage.keep(manifest.digest, found.file)
    mirror = Mirror(
        id=new_id(),
        mirror_id=mirror_id,
        project_id=project_id,
        digest=manifest.digest,
        trace_id=uuid.UUID(manifest.trace_id),
        run_id=uuid.UUID(manifest.run_id),
        loom_name=manifest.loom_name,
        release_digest=manifest.release_digest,
        boundary=manifest.boundary,
        kind=kind,
        size_bytes=found.size,
        manifest=manifest.to_wire(),
        principal=caller.principal,
        source=caller.source,
        entry=caller.entry,
        created_at=now,
    )
    with transaction.atomic():
        storage.hold(manifest.digest)
        Mirror.objects.bulk_create([mirror], ignore_conflicts=True)
    # Until it was listed, the file was nobody's, and may have been pruned.
    if not _is_whole(manifest.digest, found.size):
        storage.keep(manifest.digest, found.file)
    return Mirror.objects.get(mirror_id=mirror_id)


def _is_whole(digest: str, size: int) -> bool:
    try:
        with storage.opened(digest) as (_, stored):
            return stored == size
    except FileNotFoundError:
        return False
