"""Keeping Releases in the ledger, and loading the one that a Run is pinned to (R14)."""

from __future__ import annotations

import datetime as dt
import os
import threading
from collections.abc import Mapping
from typing import Any

from django.db import transaction

from apps.core import conf
from apps.core.errors import ErrorCode, LoomError
from apps.looms.checking.check import check_files
from apps.looms.diagnostics import errors_in
from apps.looms.loaded import LoadedLoom
from apps.looms.models import Release, ReleaseFile
from apps.looms.packages import PackageFiles, digest_of
from apps.looms.selectors import releases as selectors

_loaded: dict[str, LoadedLoom] = {}
_loading = threading.RLock()


class ReleaseUnavailable(LoomError):
    """The Release cannot be loaded here and now: never a guess with other code."""

    def __init__(self, message: str, *, details: Mapping[str, Any] | None = None) -> None:
        super().__init__(ErrorCode.RELEASE_UNAVAILABLE, message, details=details)


class ReleaseUntrusted(ReleaseUnavailable):
    """It came in a Mirror, and nobody has said yet that its Code may run here (M7)."""

    def __init__(self, digest: str, loom_name: str) -> None:
        super().__init__(
            f"Release {digest} of {loom_name} came in a Mirror and is not trusted here: its Code would run with the "
            f"rights of this service. An operator who has read it allows it with `loomsvc release_trust {digest}`.",
            details={"untrustedDigest": digest},
        )


def store_release(*, loom: LoadedLoom, files: PackageFiles, now: dt.datetime) -> None:
    """Keep ``loom`` and its files, and make it the newest of its name; storing it again is harmless."""
    with transaction.atomic():
        release = Release(loom.digest, loom_name=loom.name, requires=dict(loom.requires), created_at=now, loaded_at=now)
        Release.objects.bulk_create([release], ignore_conflicts=True)
        rows = [ReleaseFile(release_id=loom.digest, path=path, content=content) for path, content in files.items()]
        ReleaseFile.objects.bulk_create(rows, ignore_conflicts=True)
        if selectors.newest_digest(loom.name) != loom.digest:
            # Whoever put the folder there trusts what is in it.
            Release.objects.filter(pk=loom.digest).update(loaded_at=now, trusted=True, loom_name=loom.name)
    _loaded.setdefault(loom.digest, loom)


def keep_untrusted(
    *, digest: str, loom_name: str, requires: Mapping[str, str], files: PackageFiles, now: dt.datetime
) -> None:
    """Keep a Release that came in a Mirror, if there is none of its digest."""
    with transaction.atomic():
        release = Release(
            digest, loom_name=loom_name, requires=dict(requires), created_at=now, loaded_at=now, trusted=False
        )
        Release.objects.bulk_create([release], ignore_conflicts=True)
        rows = [ReleaseFile(release_id=digest, path=path, content=content) for path, content in files.items()]
        ReleaseFile.objects.bulk_create(rows, ignore_conflicts=True)


def trust_release(*, digest: str) -> selectors.StoredRelease:
    """Allow a Release's Code to run.  ``NOT_FOUND`` when there is none; trusting it again changes nothing."""
    with transaction.atomic():
        Release.objects.filter(pk=digest).update(trusted=True)
    return kept_release(digest=digest)


def kept_release(*, digest: str) -> selectors.StoredRelease:
    """The Release of this digest, trusted or not, with its files.  ``NOT_FOUND`` when there is none."""
    stored = selectors.stored_release(digest)
    if stored is None:
        raise LoomError(ErrorCode.NOT_FOUND, f"There is no Release {digest} in this ledger.")
    return stored


def load_release(digest: str) -> LoadedLoom:
    """The Release of this digest, loaded once in this process.  Raises :class:`ReleaseUnavailable`."""
    found = _loaded.get(digest)
    if found is not None:
        return found
    with _loading:
        if digest not in _loaded:
            _loaded[digest] = _load(digest)
        return _loaded[digest]


def _load(digest: str) -> LoadedLoom:
    stored = selectors.stored_release(digest)
    if stored is None:
        raise ReleaseUnavailable(f"There is no Release {digest} in this ledger.")
    if not stored.trusted:
        raise ReleaseUntrusted(digest, stored.loom_name)
    if digest_of(stored.files, stored.requires) != digest:
        raise ReleaseUnavailable(f"The stored files of Release {digest} are damaged: their digest is another.")
    checked = check_files(
        stored.files, [], stored.loom_name, releases_dir=conf.settings().releases_dir, environ=os.environ
    )
    if checked.loom is None:
        first = errors_in(checked.diagnostics)[0]
        raise ReleaseUnavailable(
            f"Release {digest} of {stored.loom_name} does not load: {first.place}: {first.message}"
        )
    if checked.loom.digest != digest:
        needed = ", ".join(f"{name} {version}" for name, version in stored.requires.items())
        raise ReleaseUnavailable(f"Release {digest} of {stored.loom_name} needs {needed} installed.")
    return checked.loom
