"""Whether a Mirror still is what its manifest says (M3)."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

from apps.mirrors.bundles.lines import Manifest
from apps.mirrors.bundles.refusals import MirrorInvalid
from apps.mirrors.bundles.taking import Progress, no_progress
from apps.mirrors.contracts import Problem, Verification
from apps.mirrors.services.keeping import Taken, taken_from_path, taken_from_storage


def verify(digest: str, *, progress: Progress = no_progress) -> Verification:
    """Compute every digest of a kept Mirror anew and read all of it."""
    return _verified(taken_from_storage(digest, progress=progress))[0]


def verify_path(path: Path, *, progress: Progress = no_progress) -> tuple[Verification, Manifest | None]:
    """The same of what lies in a folder or ``.zip`` file, with its manifest unless it is damaged."""
    return _verified(taken_from_path(path, progress=progress))


def _verified(opened: AbstractContextManager[Taken]) -> tuple[Verification, Manifest | None]:
    try:
        with opened as found:
            return Verification(status="verified", problems=[]), found.bundle.manifest
    except MirrorInvalid as damage:
        problems = [Problem(entry=damage.entry, problem=damage.problem)]
        return Verification(status="damaged", problems=problems), None
