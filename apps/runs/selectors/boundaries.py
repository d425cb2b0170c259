"""Reads of a Run's boundaries: what stands at each (M1, M9).  No Code and no Release is loaded for it."""

from __future__ import annotations

import uuid

from django.db.models import Max, QuerySet

from apps.core import clock, cursors, json_text
from apps.core.errors import ErrorCode, LoomError, not_found
from apps.runs import contracts
from apps.runs.domain.boundaries import HeldBoundary, HeldState, seen_artifacts, written_ids
from apps.runs.domain.facts import Position
from apps.runs.models import Run, StartingBoundary, State, StepAttempt
from apps.runs.selectors.dependencies import as_last_seen, began_with, touched_by


def held_boundary(run_id: uuid.UUID, boundary: int | None, *, project_id: uuid.UUID | None = None) -> HeldBoundary:
    """What stands at ``boundary`` of a Run, or at its latest one, of ``project_id`` if it is given.

    ``NOT_FOUND`` for an unknown Run; ``CONFLICT`` for a boundary that it does not hold: not come to yet, or
    one that only the Run had which it was restored or forked from.
    """
    run = _run_with_start(run_id, project_id)
    start = _start_of(run)
    first = 0 if start is None else start.boundary
    if boundary is None:
        boundary = run.boundary
    _require_held(run, first, boundary)
    if boundary == first:
        return _at_the_beginning(run, start)
    made = StepAttempt.objects.select_related("state").get(run_id=run.pk, boundary=boundary)
    before = made.step_seq + 1
    touched = list(touched_by(run_id=run.pk, before=before))
    artifact_ids, record_ids = written_ids(
        () if start is None else start.artifact_ids,
        () if start is None else start.record_ids,
        (writes for _, writes in touched),
    )
    assert made.event_seq is not None
    return HeldBoundary(
        run_id=run.pk,
        trace_id=run.trace_id,
        project_id=run.project_id,
        loom_name=run.loom_name,
        release_digest=run.release_digest,
        exclusive=run.exclusive,
        input=run.input,
        boundary=boundary,
        position=Position(made.stage, made.step, made.visit),
        outcome=made.outcome,
        result=made.result,
        visits=_visits(run, start, before),
        state=_held_state(made.state),
        dependencies=as_last_seen(project_id=run.project_id, seen=seen_artifacts(began_with(start), touched)),
        artifact_ids=artifact_ids,
        record_ids=record_ids,
        event_seq=made.event_seq,
        step_seq=before,
        reached_at=made.ended_at,
    )


def list_boundaries(*, project_id: uuid.UUID, query: contracts.ListBoundaries) -> contracts.BoundaryList:
    """One page of the boundaries that a Run holds, in order; ``NOT_FOUND`` for an unknown Run."""
    filters = {"runId": query.run_id}
    # Attempts are found by their number; the boundary that a Run begins with comes before them all.
    after = cursors.decode("list_boundaries", filters, query.cursor, cursors.number)
    run = _run_with_start(uuid.UUID(query.run_id), project_id)
    first = [(0, _first_boundary(run))] if after is None else []
    rows = _completed(run).filter(step_seq__gte=after or 0).order_by("step_seq")
    found = [*first, *((row.step_seq + 1, _boundary(row)) for row in rows[: query.limit + 1])]
    shown = found[: query.limit]
    return contracts.BoundaryList(
        boundaries=[boundary for _, boundary in shown],
        next_cursor=cursors.encode("list_boundaries", filters, str(shown[-1][0])) if len(found) > len(shown) else None,
    )


def latest_boundaries(run_id: uuid.UUID, *, limit: int) -> list[contracts.BoundaryView]:
    """The last ``limit`` boundaries that a Run of any Project came to, the newest first, for the operator."""
    run = _run_with_start(run_id, None)
    found = [_boundary(row) for row in _completed(run).order_by("-step_seq")[:limit]]
    return found if len(found) == limit else [*found, _first_boundary(run)]


def _run_with_start(run_id: uuid.UUID, project_id: uuid.UUID | None) -> Run:
    """The Run, of ``project_id`` if it is given, with what it began with if it was restored or forked."""
    rows = Run.objects.filter(pk=run_id)
    if project_id is not None:
        rows = rows.filter(project_id=project_id)
    run = rows.select_related("starting_boundary__state").first()
    if run is None:
        raise not_found("Run", str(run_id))
    return run


def _start_of(run: Run) -> StartingBoundary | None:
    return getattr(run, "starting_boundary", None)


def _completed(run: Run) -> QuerySet[StepAttempt]:
    rows = StepAttempt.objects.filter(run_id=run.pk, boundary__isnull=False)
    return rows.only("step_seq", "stage", "step", "visit", "outcome", "boundary", "ended_at")


def _boundary(row: StepAttempt) -> contracts.BoundaryView:
    assert row.boundary is not None
    return contracts.BoundaryView(
        boundary=row.boundary,
        stage=row.stage,
        step=row.step,
        visit=row.visit,
        outcome=row.outcome,
        at=clock.to_wire(row.ended_at),
    )


def _first_boundary(run: Run) -> contracts.BoundaryView:
    held = _at_the_beginning(run, _start_of(run))
    return contracts.BoundaryView(
        boundary=held.boundary,
        stage=held.position.stage,
        step=held.position.step,
        visit=held.position.visit,
        outcome=held.outcome,
        at=clock.to_wire(held.reached_at),
    )


def _require_held(run: Run, first: int, boundary: int) -> None:
    if first <= boundary <= run.boundary:
        return
    held = f"boundary {first}" if first == run.boundary else f"boundaries {first} to {run.boundary}"
    where = (
        ""
        if boundary > run.boundary or run.restored_from is None
        else (f" Earlier ones are those of Run {run.restored_from['runId']}, which it came from.")
    )
    raise LoomError(
        ErrorCode.CONFLICT,
        f"Run {run.pk} does not hold boundary {boundary}; it holds {held}.{where}",
        details={"first": first, "last": run.boundary},
    )


def _at_the_beginning(run: Run, start: StartingBoundary | None) -> HeldBoundary:
    if start is None:
        # Every Run begins with an attempt at its entry; until then its cursor is there.
        entry = StepAttempt.objects.filter(run_id=run.pk).order_by("step_seq").values_list("stage", "step").first()
        stage, step = entry or (run.stage, run.step)
        position, visits = Position(stage, step, 1), {f"{stage}/{step}": 1}
    else:
        position, visits = Position(start.stage, start.step, start.visit), start.visits
    return HeldBoundary(
        run_id=run.pk,
        trace_id=run.trace_id,
        project_id=run.project_id,
        loom_name=run.loom_name,
        release_digest=run.release_digest,
        exclusive=run.exclusive,
        input=run.input,
        boundary=0 if start is None else start.boundary,
        position=position,
        outcome=None if start is None else start.outcome,
        result=None if start is None else start.result,
        visits=visits,
        state=None if start is None else _held_state(start.state),
        dependencies=tuple(began_with(start)),
        artifact_ids=() if start is None else tuple(start.artifact_ids),
        record_ids=() if start is None else tuple(start.record_ids),
        event_seq=1,
        step_seq=0,
        reached_at=run.created_at if start is None else start.reached_at,
    )


def _held_state(row: State | None) -> HeldState | None:
    return None if row is None else HeldState(row.pk, row.stage, row.data, json_text.digest(row.data))


def _visits(run: Run, start: StartingBoundary | None, before: int) -> dict[str, int]:
    """How often each Step was visited: all that a Run entered have attempts, and those from before are kept."""
    attempts = StepAttempt.objects.filter(run_id=run.pk, step_seq__lt=before).order_by()
    entered = attempts.values_list("stage", "step").annotate(most=Max("visit"))
    visits = {} if start is None else dict(start.visits)
    visits.update({f"{stage}/{step}": most for stage, step, most in entered})
    return visits
