"""Where Loom folders are: ``LOOM_PATHS``, installed packages, and the examples (no database)."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import metadata
from pathlib import Path

from apps.looms.domain.names import LOOM_FILE
from apps.looms.packages import is_left_out

ENTRY_POINTS = "loomsvc.looms"
EXAMPLES = Path(__file__).resolve().parent / "examples"


@dataclass(frozen=True, slots=True)
class LoomFolder:
    """A folder with a ``loom.yaml``; ``label`` tells it from others without its path."""

    path: Path
    label: str


def loom_folders(loom_paths: Sequence[Path]) -> tuple[LoomFolder, ...]:
    """Every Loom folder, each once, in the order of the sources."""
    found: dict[str, LoomFolder] = {}
    for place, label in _roots(loom_paths):
        for folder in _below(place):
            inside = "" if folder == place else f"/{shown_name(folder)}"
            found.setdefault(os.path.realpath(folder), LoomFolder(folder, f"{label}{inside}"))
    return tuple(found.values())


def shown_name(folder: Path) -> str:
    """The folder's name as a text, whatever bytes the file system has for it."""
    return folder.name.encode("utf-8", "backslashreplace").decode()


def root_times(loom_paths: Sequence[Path]) -> tuple[int, ...]:
    """When an entry was last put into, or taken from, each source; 0 for one that cannot be read."""
    return tuple(_modified(place) for place, _ in _roots(loom_paths))


def _modified(place: Path) -> int:
    try:
        return os.stat(place).st_mtime_ns
    except OSError:
        return 0


def _roots(loom_paths: Sequence[Path]) -> Iterator[tuple[Path, str]]:
    for number, path in enumerate(loom_paths, start=1):
        yield path, f"LOOM_PATHS folder {number}"
    for name, path in _installed():
        yield path, f"installed package {name}"
    yield EXAMPLES, "examples"


@lru_cache(maxsize=1)
def _installed() -> tuple[tuple[str, Path], ...]:
    """What installed distributions offer; a process sees those that were there when it started."""
    found: list[tuple[str, Path]] = []
    for point in metadata.entry_points(group=ENTRY_POINTS):
        try:
            spec = importlib.util.find_spec(point.module)
        except (ImportError, ValueError):
            continue
        locations = spec.submodule_search_locations if spec is not None else None
        found += [(point.name, Path(location)) for location in locations or ()]
    return tuple(found)


def _below(place: Path) -> list[Path]:
    """``place`` itself if it is a Loom folder, else those directly inside."""
    if (place / LOOM_FILE).is_file():
        return [place]
    try:
        with os.scandir(place) as entries:
            names = sorted(entry.name for entry in entries if not is_left_out(entry.name))
    except OSError:
        return []
    return [place / name for name in names if (place / name / LOOM_FILE).is_file()]
