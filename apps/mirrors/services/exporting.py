"""Mirroring a trace (M1, M4)."""

from __future__ import annotations

import datetime as dt
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from apps.core.caller import Caller
from apps.core.errors import ErrorCode, LoomError
from apps.looms.selectors.releases import stored_release
from apps.mirrors import storage
from apps.mirrors.bundles.refusals import MirrorInvalid
from apps.mirrors.bundles.sources import ZipSource
from apps.mirrors.bundles.taking import Progress, no_progress
from apps.mirrors.bundles.writing import write_bundle
from apps.mirrors.models import Mirror
from apps.mirrors.selectors.traces import subject_of, trace_lines
from apps.mirrors.services.keeping import Taken, keep_mirror, taken
from apps.runs.domain.boundaries import HeldBoundary
from apps.runs.selectors.boundaries import held_boundary
from apps.runs.selectors.mirroring import newest_run


def find_boundary(
    *, project_id: uuid.UUID, trace_id: str, run_id: str | None = None, boundary: int | None = None
) -> HeldBoundary:
    """The trace's newest Run in the Project at its latest boundary, unless others are named.

    ``NOT_FOUND`` for an unknown trace or Run, ``CONFLICT`` for a boundary that the Run does not hold.
    """
    newest = newest_run(project_id=project_id, trace_id=uuid.UUID(trace_id))
    if newest is None:
        raise LoomError(
            ErrorCode.NOT_FOUND, f"No trace {trace_id} in this Project; `get_run` shows the traceId of a Run."
        )
    held = held_boundary(uuid.UUID(run_id) if run_id else newest, boundary, project_id=project_id)
    if str(held.trace_id) != trace_id:
        raise LoomError(ErrorCode.NOT_FOUND, f"No Run {run_id} of trace {trace_id} in this Project.")
    return held


@contextmanager
def written(held: HeldBoundary, *, progress: Progress = no_progress) -> Iterator[Taken]:
    """The Mirror of a boundary for the length of the block: written, and checked as a stranger's would be."""
    release = stored_release(held.release_digest)
    if release is None:
        raise LoomError(ErrorCode.RELEASE_UNAVAILABLE, f"There is no Release {held.release_digest} in this ledger.")
    with ExitStack() as stack:
        out = stack.enter_context(tempfile.TemporaryFile())
        write_bundle(out, subject_of(held), trace_lines(held, release), release.files, progress=progress)
        try:
            source = ZipSource(out, out.tell(), storage.limits())
            found = stack.enter_context(taken(source, progress=progress))
        except MirrorInvalid as refused:
            raise _not_taken_again(refused) from None
        yield found


def _not_taken_again(refused: MirrorInvalid) -> LoomError:
    where = f"{refused.entry}: " if refused.entry else ""
    return LoomError(
        ErrorCode.MIRROR_INVALID,
        f"This trace makes no Mirror that could be restored: {where}{refused.problem}. Nothing was kept. If it is too "
        "large, an earlier boundary makes a smaller one, and an operator can raise LOOMSVC_MIRROR_BYTES.",
        details=refused.details,
    )


def export_mirror(
    *,
    caller: Caller,
    held: HeldBoundary,
    project_id: uuid.UUID,
    now: dt.datetime,
    progress: Progress = no_progress,
) -> Mirror:
    """Mirror a boundary into a Project; the same content again is the same Mirror."""
    with written(held, progress=progress) as found:
        return keep_mirror(caller=caller, project_id=project_id, found=found, kind="exported", now=now)
