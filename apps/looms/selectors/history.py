"""Releases over time: which Looms there are, and what their Releases hold."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

from apps.core.errors import not_found
from apps.looms.models import Release, ReleaseFile


@dataclass(frozen=True, slots=True)
class ReleaseHead:
    """A Release without its files; ``loaded_at`` is when new Runs last began to take it.

    One that is not ``trusted`` came in a Mirror, and none of its Code runs here.
    """

    digest: str
    loom_name: str
    created_at: dt.datetime
    loaded_at: dt.datetime
    trusted: bool


_HEAD = ("digest", "loom_name", "created_at", "loaded_at", "trusted")


def newest_releases(*, limit: int) -> list[ReleaseHead]:
    """The newest Release of each Loom that ever loaded, by name; read from at most ``limit`` Releases."""
    newest: dict[str, ReleaseHead] = {}
    for row in Release.objects.order_by("loom_name", "-loaded_at").values_list(*_HEAD)[:limit]:
        newest.setdefault(row[1], ReleaseHead(*row))
    return list(newest.values())


def releases_of(*, loom_name: str, limit: int) -> list[ReleaseHead]:
    """A Loom's Releases, the newest first."""
    rows = Release.objects.filter(loom_name=loom_name).order_by("-loaded_at", "digest")
    return [ReleaseHead(*row) for row in rows.values_list(*_HEAD)[:limit]]


def release_files(*, loom_name: str, digest: str) -> dict[str, bytes]:
    """The files of a Release of this Loom by path; ``NOT_FOUND`` when it has none of that digest."""
    rows = ReleaseFile.objects.filter(release_id=digest, release__loom_name=loom_name).order_by("path")
    files = {path: bytes(content) for path, content in rows.values_list("path", "content")}
    if not files:
        raise not_found("Release", digest)
    return files
