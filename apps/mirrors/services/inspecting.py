"""Whether a Mirror still is what its manifest says (M3)."""

from __future__ import annotations

from apps.mirrors.bundles.refusals import MirrorInvalid
from apps.mirrors.bundles.taking import Progress, no_progress
from apps.mirrors.contracts import Problem, Verification
from apps.mirrors.services.keeping import taken_from_storage


def verify(digest: str, *, progress: Progress = no_progress) -> Verification:
    """Compute every digest of a kept Mirror anew and read all of it."""
    try:
        with taken_from_storage(digest, progress=progress):
            return Verification(status="verified", problems=[])
    except MirrorInvalid as damage:
        return Verification(status="damaged", problems=[Problem(entry=damage.entry, problem=damage.problem)])
