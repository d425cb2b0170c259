"""Where the files of Mirrors lie: behind Django's storage API, each under its digest, written once."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO, cast

from django.core.files import File
from django.core.files.storage import Storage, storages

from apps.core import conf
from apps.core.database import lock_name
from apps.mirrors.bundles.layout import CHUNK, Limits

#: The name among Django's ``STORAGES``.
ALIAS = "mirrors"


def limits() -> Limits:
    """How large a Mirror may be here."""
    settings = conf.settings()
    return Limits(bundle_bytes=settings.mirror_bytes, value_bytes=settings.max_value_bytes)


def storage() -> Storage:
    """The storage that the operator chose."""
    return storages[ALIAS]


def name_of(digest: str) -> str:
    """The name of the file of this digest."""
    return f"{digest[:2]}/{digest}.zip"


def keep(digest: str, file: BinaryIO) -> None:
    """Store the file of a Mirror.  What is there stays when it is the same, and is replaced when it was cut off.

    Mirrors of other Projects may have it too: a file that is whole is never taken away, even for a moment.
    """
    name = name_of(digest)
    if _holds(name, file):
        return
    file.seek(0)
    if storage().exists(name):
        storage().delete(name)
    stored = storage().save(name, File(file, name=name))
    if stored != name:
        # Another process stored the same bytes at the same moment.
        storage().delete(stored)


def _holds(name: str, file: BinaryIO) -> bool:
    """Whether what is stored has exactly the bytes of ``file``."""
    try:
        with storage().open(name, "rb") as stored:
            file.seek(0)
            while data := file.read(CHUNK):
                if stored.read(len(data)) != data:
                    return False
            return not stored.read(1)
    except FileNotFoundError:
        return False


@contextmanager
def opened(digest: str) -> Iterator[tuple[BinaryIO, int]]:
    """The file of a Mirror and its size.  Raises ``FileNotFoundError`` when it is gone."""
    name = name_of(digest)
    with storage().open(name, "rb") as file:
        yield cast("BinaryIO", file), file.size


def stored_digests() -> Iterator[str]:
    """The digest of every file that lies there."""
    try:
        folders, _ = storage().listdir("")
    except FileNotFoundError:
        return
    for folder in sorted(folders):
        for name in sorted(storage().listdir(folder)[1]):
            digest = name.removesuffix(".zip")
            if name_of(digest) == f"{folder}/{name}":
                yield digest


def hold(digest: str) -> None:
    """Until the transaction ends, nobody else lists a Mirror with this file or removes the file."""
    lock_name("mirror file", digest)


def discard(digest: str) -> None:
    """Remove the file; it is no error when it is gone."""
    storage().delete(name_of(digest))


def age_of(digest: str, now: dt.datetime) -> dt.timedelta:
    """How long ago the file was written."""
    return now - storage().get_modified_time(name_of(digest))
