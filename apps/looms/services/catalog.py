"""The Looms that this service offers: folders turned into Releases, seen anew when they change (N8).

Call these outside transactions: loading a changed folder stores a Release.
"""

from __future__ import annotations

import enum
import logging
import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from django.db import connection

from apps.core import clock, conf
from apps.core.errors import LoomError
from apps.looms.checking.check import Checked, check_folder
from apps.looms.diagnostics import Diagnostic
from apps.looms.loaded import LoadedLoom
from apps.looms.packages import Signature, signature
from apps.looms.selectors.releases import newest_digest
from apps.looms.services.releases import load_release, store_release
from apps.looms.sources import LoomFolder, loom_folders, root_times, shown_name


class LoomStatus(enum.StrEnum):
    """Whether new Runs of a Loom can be admitted."""

    #: Its folder loads; new Runs take that Release.
    READY = "ready"
    #: Its folder does not load, or two folders carry its name.
    INVALID = "invalid"


@dataclass(frozen=True)
class CatalogEntry:
    """One Loom.  ``loom`` is the newest loaded Release, ``None`` when there never was one."""

    name: str
    loom: LoadedLoom | None
    status: LoomStatus
    diagnostics: tuple[Diagnostic, ...]


@dataclass(frozen=True)
class _Seen:
    """A folder as it was when it was last loaded."""

    folder: LoomFolder
    signature: Signature | None
    checked: Checked


@dataclass(frozen=True)
class _Catalog:
    #: Of the folders that hold Loom folders: another time means another folder was put there.
    root_times: tuple[int, ...]
    seen: Mapping[LoomFolder, _Seen]
    by_name: Mapping[str, Sequence[_Seen]]
    entries: Mapping[str, CatalogEntry]


_NOTHING_SEEN = _Catalog((), {}, {}, {})
_catalog = _NOTHING_SEEN
#: What :func:`problems` or :func:`loadable` saw last.
_looked: Mapping[LoomFolder, _Seen] = {}
_refreshing = threading.Lock()
_log = logging.getLogger("loomsvc.looms")


def entries() -> list[CatalogEntry]:
    """Every Loom by name; folders that changed are loaded first."""
    refresh()
    return sorted(_catalog.entries.values(), key=lambda entry: entry.name)


def current(loom_name: str) -> CatalogEntry | None:
    """The Loom of this name, ``None`` when there is none; its folder is loaded first if it changed."""
    present = _catalog
    own = present.by_name.get(loom_name)
    if (
        own is None
        or any(_signature(one.folder) != one.signature for one in own)
        or root_times(conf.settings().loom_paths) != present.root_times
    ):
        refresh()
    return _catalog.entries.get(loom_name)


def refresh() -> None:
    """Look at every folder and load those that changed."""
    # Who holds SQLite's writer lock must not wait for someone who needs it to store a Release.
    if not _refreshing.acquire(blocking=not connection.in_atomic_block):
        return
    try:
        _refresh(conf.settings().loom_paths)
    finally:
        _refreshing.release()


def problems() -> list[CatalogEntry]:
    """Looms that do not load as their folders stand, by name.  Stores nothing, for pages that only read."""
    found = _look_only()
    return [_invalid(name, own, None) for name, own in found if len(own) > 1 or own[0].checked.loom is None]


def loadable() -> list[LoadedLoom]:
    """Looms that load as their folders stand, by name.  Stores nothing, for pages that only read."""
    return [own[0].checked.loom for _, own in _look_only() if len(own) == 1 and own[0].checked.loom is not None]


def _look_only() -> list[tuple[str, list[_Seen]]]:
    global _looked
    # What the catalog has seen need not be checked again, nor what was looked at here before.
    _looked = _see(conf.settings().loom_paths, {**_looked, **_catalog.seen})
    return sorted(_by_name(_looked.values()).items())


def _signature(folder: LoomFolder) -> Signature | None:
    try:
        return signature(folder.path)
    except OSError:
        return None


def _refresh(loom_paths: Sequence[Path]) -> None:
    global _catalog
    before = _catalog
    # Times and signatures are taken before the files are read: a change meanwhile is met at the next look.
    times = root_times(loom_paths)
    seen = _see(loom_paths, before.seen)
    if seen != before.seen or times != before.root_times:
        by_name = _by_name(seen.values())
        found = {name: _entry(name, own, before.entries.get(name)) for name, own in by_name.items()}
        _catalog = _Catalog(times, seen, by_name, found)


def _see(loom_paths: Sequence[Path], known: Mapping[LoomFolder, _Seen]) -> dict[LoomFolder, _Seen]:
    """Every folder; those that ``known`` has as they are now are not loaded again."""
    seen: dict[LoomFolder, _Seen] = {}
    for folder in loom_folders(loom_paths):
        present = _signature(folder)
        before = known.get(folder)
        seen[folder] = before if before and before.signature == present else _look(folder, present)
    return seen


def _look(folder: LoomFolder, present: Signature | None) -> _Seen:
    try:
        checked = check_folder(folder.path, releases_dir=conf.settings().releases_dir, environ=os.environ)
    except Exception:  # one Loom's trouble must not keep the others from being offered
        _log.exception("Loom folder %s could not be checked", folder.label)
        failed = Diagnostic.error("", None, "The check of this folder failed.", "The service's log has the reason.")
        checked = Checked(shown_name(folder.path), {}, None, None, (failed,))
    return _Seen(folder, present, checked)


def _by_name(seen: Iterable[_Seen]) -> dict[str, list[_Seen]]:
    out: dict[str, list[_Seen]] = {}
    for one in seen:
        out.setdefault(one.checked.name, []).append(one)
    return out


def _entry(name: str, found: Sequence[_Seen], before: CatalogEntry | None) -> CatalogEntry:
    checked = found[0].checked
    if len(found) == 1 and checked.loom is not None:
        if before is None or before.loom is None or before.loom.digest != checked.loom.digest:
            store_release(loom=checked.loom, files=checked.files, now=clock.now())
        return CatalogEntry(name, checked.loom, LoomStatus.READY, checked.diagnostics)
    return _invalid(name, found, before.loom if before is not None and before.loom is not None else _newest(name))


def _invalid(name: str, found: Sequence[_Seen], newest: LoadedLoom | None) -> CatalogEntry:
    diagnostics = found[0].checked.diagnostics
    if len(found) > 1:
        places = ", ".join(one.folder.label for one in found)
        clash = Diagnostic.error(
            "loom.yaml", None, f"Several folders carry the name {name}: {places}.", "Rename or remove all but one."
        )
        diagnostics = (clash,)
    return CatalogEntry(name, newest, LoomStatus.INVALID, diagnostics)


def _newest(name: str) -> LoadedLoom | None:
    digest = newest_digest(name)
    try:
        return None if digest is None else load_release(digest)
    except LoomError:
        return None
