"""Forking a Run: a new one of the same trace, paused at a boundary of the other (M9)."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Iterator

from apps.core.caller import Caller
from apps.core.database import lock_shared
from apps.core.errors import not_found
from apps.ledger.contracts import Receipt
from apps.ledger.domain.receipts import OperationKind
from apps.ledger.services.operations import Applied, perform
from apps.runs.contracts import ForkRun
from apps.runs.domain.boundaries import Dependency
from apps.runs.models import KeptArtifact, Run
from apps.runs.selectors.boundaries import held_boundary
from apps.runs.services.restoring import ArtifactData, Origin, create_paused_run


def fork_run(*, caller: Caller, request: ForkRun, now: dt.datetime) -> Receipt:
    """Begin one Run at ``request.boundary`` of a Run in any status, historical ones too; its receipt.

    The Run that is forked is not changed.  Rejected with ``NOT_FOUND``, ``CONFLICT`` (it does not hold that
    boundary) or ``BUSY`` (another Run of an exclusive Loom has not ended).
    """
    source_id = uuid.UUID(request.run_id)

    def effect() -> Applied:
        # Held, so that retention does not remove it meanwhile, and before the Loom's name: always in this order.
        if not lock_shared(Run.objects.filter(pk=source_id, project_id=caller.project_id)):
            raise not_found("Run", request.run_id)
        held = held_boundary(source_id, request.boundary, project_id=caller.project_id)
        fork_id = create_paused_run(
            caller=caller,
            project_id=caller.project_id,
            held=held,
            mirror_id=None,
            origin=Origin(uuid.UUID(request.operation_id), uuid.UUID(request.service_instance_id)),
            artifacts=_kept_beside(source_id, held.dependencies),
            now=now,
        )
        return Applied(fork_id, revision_after=1)

    return perform(
        caller=caller, kind=OperationKind.FORK_RUN, request=request, effect=effect, now=now, run_id=source_id
    )


def _kept_beside(source_id: uuid.UUID, dependencies: tuple[Dependency, ...]) -> Iterator[ArtifactData]:
    """What came with the Mirror that the source was restored from, as far as the fork depends on it still."""
    wanted = {one.artifact_id: one.digest for one in dependencies}
    rows = KeptArtifact.objects.filter(run_id=source_id).order_by("artifact_id")
    for row in rows.iterator(chunk_size=20):
        if wanted.get(row.artifact_id) == row.digest:
            yield ArtifactData(row.artifact_id, row.digest, row.data)
