"""Beginning a Run at a boundary that another Run came to: for forks and for restored Mirrors (M5, M9)."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from apps.core.caller import Caller
from apps.core.ids import new_id
from apps.ledger.services.events import NewEvent, append_events
from apps.runs.domain.advancing import REPEATABLE_ATTEMPTS, SegmentPolicy
from apps.runs.domain.boundaries import HeldBoundary
from apps.runs.domain.statuses import EventType, RunStatus, SegmentKind
from apps.runs.models import KeptArtifact, Run, StartingBoundary, State
from apps.runs.services.admission import admitted_by
from apps.runs.services.dependencies import dependencies_json
from apps.runs.services.exclusivity import require_no_other

#: Artifacts that are held in memory at once: each may have a megabyte.
_BATCH = 5


@dataclass(frozen=True, slots=True)
class ArtifactData:
    """What an Artifact held, for a Run whose Project may never have had that revision."""

    artifact_id: str
    digest: str
    data: Any


@dataclass(frozen=True, slots=True)
class Origin:
    """The Operation that made the Run: a fork's (O1)."""

    operation_id: uuid.UUID
    instance_id: uuid.UUID


def create_paused_run(
    *,
    caller: Caller,
    project_id: uuid.UUID,
    held: HeldBoundary,
    mirror_id: uuid.UUID | None,
    origin: Origin | None,
    artifacts: Iterable[ArtifactData] = (),
    now: dt.datetime,
) -> uuid.UUID:
    """Begin a Run of the same trace, paused at ``held``, under ``caller``'s policy; its id.

    Call it inside a transaction.  A fork has an ``origin`` and no Mirror, a restored Run a ``mirror_id`` and
    no origin.  ``artifacts`` are read once, a few at a time: what ``held.dependencies`` held, at most once
    each, for a resume that is asked to restore them.  No Code is run and no Release loaded.  ``BUSY`` while
    another Run of an exclusive Loom has not ended (R8).
    """
    if held.exclusive:
        require_no_other(project_id=project_id, loom_name=held.loom_name)
    run_id, state = new_id(), None
    if held.state is not None:
        state = replace(held.state, id=new_id())
    run = Run(
        id=run_id,
        trace_id=held.trace_id,
        project_id=project_id,
        loom_name=held.loom_name,
        release_digest=held.release_digest,
        exclusive=held.exclusive,
        input=held.input,
        **admitted_by(caller),
        origin_operation_id=origin.operation_id if origin else None,
        origin_instance_id=origin.instance_id if origin else None,
        restored_from={
            "mirrorId": str(mirror_id) if mirror_id else None,
            "runId": str(held.run_id),
            "boundary": held.boundary,
        },
        mirror_id=mirror_id,
        status=RunStatus.PAUSED,
        artifact_ids=list(held.artifact_ids),
        record_ids=list(held.record_ids),
        state_id=state.id if state else None,
        dependencies=dependencies_json(state, held.dependencies),
        created_at=now,
        updated_at=now,
    )
    _stand_at(run, held)
    run.event_seq = append_events(run_id=run_id, after=0, events=_events(held, mirror_id), at=now)
    run.save(force_insert=True)
    if state is not None:
        State.objects.create(id=state.id, run=run, stage=state.stage, data=state.data, created_at=now)
    StartingBoundary.objects.create(
        run=run,
        boundary=held.boundary,
        stage=held.position.stage,
        step=held.position.step,
        visit=held.position.visit,
        outcome=held.outcome,
        result=held.result,
        visits=dict(held.visits),
        state_id=run.state_id,
        dependencies=[one.to_json() for one in held.dependencies],
        artifact_ids=list(held.artifact_ids),
        record_ids=list(held.record_ids),
        reached_at=held.reached_at,
    )
    _keep(run, artifacts)
    return run_id


def _stand_at(run: Run, held: HeldBoundary) -> None:
    """The saved result is to be routed; at boundary 0 the entry Stage's initializer is due."""
    run.boundary = held.boundary
    run.stage, run.step, run.visit = held.position.stage, held.position.step, held.position.visit
    run.visits = dict(held.visits)
    if held.outcome is None:
        run.due_kind = SegmentKind.INITIALIZE
        run.policy = SegmentPolicy(interruption_limit=REPEATABLE_ATTEMPTS).to_json()
    else:
        run.due_kind = SegmentKind.STEP
        run.policy = SegmentPolicy().to_json()
        run.saved_result = {"outcome": held.outcome}
        run.previous = {"stage": run.stage, "step": run.step, "value": held.result}


def _events(held: HeldBoundary, mirror_id: uuid.UUID | None) -> list[NewEvent]:
    source = {"runId": str(held.run_id), "boundary": held.boundary, "loomName": held.loom_name}
    began = (
        NewEvent(EventType.RUN_FORKED, source)
        if mirror_id is None
        else NewEvent(EventType.RUN_RESTORED, {"mirrorId": str(mirror_id), **source})
    )
    return [began, NewEvent(EventType.RUN_PAUSED, {"boundary": held.boundary})]


def _keep(run: Run, artifacts: Iterable[ArtifactData]) -> None:
    left = iter(artifacts)
    while some := list(islice(left, _BATCH)):
        KeptArtifact.objects.bulk_create(
            KeptArtifact(id=new_id(), run=run, artifact_id=one.artifact_id, digest=one.digest, data=one.data)
            for one in some
        )
