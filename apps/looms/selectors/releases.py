"""Reads of Releases."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from apps.looms.models import Release, ReleaseFile
from apps.looms.packages import PackageFiles


@dataclass(frozen=True, slots=True)
class StoredRelease:
    """A Release as the ledger has it."""

    digest: str
    loom_name: str
    requires: Mapping[str, str]
    files: PackageFiles
    #: Whether its Code may run here.
    trusted: bool


def stored_release(digest: str) -> StoredRelease | None:
    """The Release of this digest with its files."""
    row = Release.objects.filter(pk=digest).first()
    if row is None:
        return None
    files = ReleaseFile.objects.filter(release=row).values_list("path", "content")
    held = {path: bytes(content) for path, content in files}
    return StoredRelease(row.digest, row.loom_name, row.requires, held, row.trusted)


def is_trusted(digest: str) -> bool | None:
    """Whether its Code may run here; ``None`` when the ledger has no such Release."""
    return Release.objects.filter(pk=digest).values_list("trusted", flat=True).first()


def loom_of(digest: str) -> str | None:
    """The Loom whose Release this is; ``None`` when the ledger has no such Release."""
    return Release.objects.filter(pk=digest).values_list("loom_name", flat=True).first()


def newest_digest(loom_name: str) -> str | None:
    """The Release that was loaded last under this name; one that came in a Mirror is no offer to run it."""
    rows = Release.objects.filter(loom_name=loom_name, trusted=True).order_by("-loaded_at", "digest")
    return rows.values_list("digest", flat=True).first()


def known_names() -> list[str]:
    """Every Loom that ever loaded, by name."""
    return list(Release.objects.order_by("loom_name").values_list("loom_name", flat=True).distinct())
