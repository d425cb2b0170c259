"""Reads of Runs; the number of statements does not depend on how many Runs there are (P9)."""

from __future__ import annotations

import uuid
from typing import Any

from django.db.models import Count, QuerySet

from apps.core import clock, cursors
from apps.core.database import planned_for_values
from apps.core.errors import not_found
from apps.core.prepared import PreparedRead
from apps.ledger.selectors.events import events_after
from apps.ledger.selectors.instances import current_id, current_instance, require_open
from apps.runs import contracts
from apps.runs.domain.statuses import OPEN, TERMINAL
from apps.runs.models import Action, Run, StepAttempt

#: The fields that :func:`_members` and :func:`_action` look at; one left out here costs each read a statement more.
_SHOWN = (
    "trace_id", "project", "loom_name", "release_digest", "input", "source", "agent_executor", "profile",
    "origin_operation_id", "origin_instance_id", "status", "revision", "stage", "step", "visit", "pause_requested",
    "pending_action", "pending_agent_call", "outcome", "last_error", "artifact_ids", "record_ids", "usage",
    "restored_from", "boundary", "created_at", "updated_at", "started_at", "finished_at", "finished_instance",
)  # fmt: skip
_SHOWN_OF_ACTION = ("kind", "request", "only_person", "created_at")


def _fields(*left_out: str) -> list[str]:
    """The fields of a Run, its Project and its pending Action that a read asks for."""
    beside = ("project__name", *(f"pending_action__{name}" for name in _SHOWN_OF_ACTION))
    return [name for name in (*_SHOWN, *beside) if name not in left_out]


def _members(run: Run, *, current: uuid.UUID, in_list: bool) -> dict[str, Any]:
    origin = None
    if run.origin_operation_id is not None:
        origin = {
            "operation_id": str(run.origin_operation_id),
            "service_instance_id": str(run.origin_instance_id),
        }
    return {
        "run_id": str(run.pk),
        "trace_id": str(run.trace_id),
        "loom_name": run.loom_name,
        "release_digest": run.release_digest,
        "project": run.project.name,
        "status": run.status,
        "revision": run.revision,
        "cursor": {"stage": run.stage, "step": run.step, "visit": run.visit},
        "input": None if in_list else run.input,
        "execution": {
            "source": run.source,
            "agent_executor": run.agent_executor,
            "profile": run.profile or None,
        },
        "pause_requested": run.pause_requested,
        "pending_action": _action(run.pending_action, in_list=in_list),
        "pending_agent_call": run.pending_agent_call,
        "outcome": run.outcome,
        "last_error": run.last_error,
        "results": {"artifact_ids": run.artifact_ids, "record_ids": run.record_ids},
        "usage": run.usage,
        "origin": origin,
        "restored_from": run.restored_from,
        "boundary": run.boundary,
        "historical": run.status in TERMINAL and run.finished_instance_id != current,
        "created_at": clock.to_wire(run.created_at),
        "updated_at": clock.to_wire(run.updated_at),
        "started_at": clock.to_wire(run.started_at) if run.started_at else None,
        "finished_at": clock.to_wire(run.finished_at) if run.finished_at else None,
    }


def _action(action: Action | None, *, in_list: bool) -> dict[str, Any] | None:
    if action is None:
        return None
    return {
        "id": str(action.pk),
        "kind": action.kind,
        "request": None if in_list else action.request,
        "only_person": action.only_person,
        "created_at": clock.to_wire(action.created_at),
    }


def view_of(run: Run, *, current: uuid.UUID) -> contracts.RunView:
    """A Run's present view; ``run`` comes with its Project and pending Action."""
    return contracts.RunView.model_validate(_members(run, current=current, in_list=False))


def summary_of(run: Run, *, current: uuid.UUID) -> contracts.RunSummary:
    """A Run as lists show it; ``run`` comes with its Project and pending Action."""
    return contracts.RunSummary.model_validate(_members(run, current=current, in_list=True))


def listed_runs() -> QuerySet[Run]:
    """Runs as :func:`summary_of` takes them: nothing is read that no list shows, for a value may be a megabyte."""
    shown = _fields("input", "pending_action__request")
    return Run.objects.select_related("project", "pending_action").only(*shown)


#: What clients ask for most, again and again while a Run is under way.
_READ = PreparedRead(
    Run,
    key=["id", "project_id"],
    related=["project", "pending_action"],
    also={"current_instance_id": current_id()},
    only=_fields(),
)


def get_run(*, project_id: uuid.UUID, run_id: str) -> contracts.RunView:
    """The Run; ``NOT_FOUND`` for an unknown id and for another Project's alike (E4, E5)."""
    run = _READ.first(id=uuid.UUID(run_id), project_id=project_id)
    if run is None:
        raise not_found("Run", run_id)
    return view_of(run, current=require_open(run.current_instance_id))  # type: ignore[attr-defined]


def find_run(*, project_id: uuid.UUID, operation_id: str, instance_id: str) -> contracts.RunView | None:
    """The Run that an Operation started, across restarts (O8)."""
    rows = Run.objects.select_related("project", "pending_action").only(*_fields())
    run = rows.filter(
        project_id=project_id,
        origin_operation_id=uuid.UUID(operation_id),
        origin_instance_id=uuid.UUID(instance_id),
    ).first()
    return None if run is None else view_of(run, current=current_instance().id)


def list_runs(*, project_id: uuid.UUID, query: contracts.ListRuns) -> contracts.RunList:
    """One keyset page, newest first: ids sort by time, so no Run is skipped or shown twice (R3)."""
    filters = {"loomName": query.loom_name, "status": query.status}
    after = cursors.decode("list_runs", filters, query.cursor, uuid.UUID)
    rows = listed_runs().filter(project_id=project_id).order_by("-id")
    if query.loom_name is not None:
        rows = rows.filter(loom_name=query.loom_name)
    if query.status is not None:
        rows = rows.filter(status=query.status)
    if after is not None:
        rows = rows.filter(id__lt=after)
    with planned_for_values():
        page = list(rows[: query.limit + 1])
    shown = page[: query.limit]
    current = current_instance().id
    return contracts.RunList(
        runs=[summary_of(run, current=current) for run in shown],
        next_cursor=cursors.encode("list_runs", filters, str(shown[-1].pk)) if len(page) > len(shown) else None,
    )


def open_counts(*, project_id: uuid.UUID) -> dict[str, int]:
    """How many Runs of the Project have not ended, by status."""
    rows = (
        Run.objects.filter(project_id=project_id, status__in=OPEN)
        .order_by()
        .values_list("status")
        .annotate(number=Count("id"))
    )
    return {"queued": 0, "running": 0, "waiting": 0, "paused": 0, **dict(rows)}


def _require(project_id: uuid.UUID, run_id: str) -> Run:
    run = Run.objects.only("id", "trace_id").filter(pk=uuid.UUID(run_id), project_id=project_id).first()
    if run is None:
        raise not_found("Run", run_id)
    return run


def list_events(*, project_id: uuid.UUID, query: contracts.ListEvents) -> contracts.EventList:
    """One page of a Run's events, in order."""
    run = _require(project_id, query.run_id)
    filters = {"runId": query.run_id}
    after = cursors.decode("list_events", filters, query.cursor, cursors.number)
    page = events_after(run_id=run.pk, seq=after or 0, limit=query.limit + 1)
    shown = page[: query.limit]
    more = len(page) > len(shown)
    return contracts.EventList(
        events=shown,
        next_cursor=cursors.encode("list_events", filters, str(shown[-1].seq)) if more else None,
    )


def list_attempts(*, project_id: uuid.UUID, query: contracts.ListAttempts) -> contracts.AttemptList:
    """One page of a Run's attempts with the State after each."""
    run = _require(project_id, query.run_id)
    filters = {"runId": query.run_id}
    after = cursors.decode("list_attempts", filters, query.cursor, cursors.number)
    rows = StepAttempt.objects.select_related("state").filter(run_id=run.pk).order_by("step_seq")
    if after is not None:
        rows = rows.filter(step_seq__gt=after)
    page = list(rows[: query.limit + 1])
    shown = page[: query.limit]
    more = len(page) > len(shown)
    return contracts.AttemptList(
        attempts=[_attempt(row) for row in shown],
        next_cursor=cursors.encode("list_attempts", filters, str(shown[-1].step_seq)) if more else None,
    )


def _attempt(row: StepAttempt) -> contracts.AttemptView:
    return contracts.AttemptView.model_validate(
        {
            "step_seq": row.step_seq,
            "stage": row.stage,
            "step": row.step,
            "visit": row.visit,
            "kind": row.kind,
            "segment": row.segment,
            "attempt": row.attempt,
            "status": row.status,
            "outcome": row.outcome,
            "error": row.error,
            "boundary": row.boundary,
            "state": row.state.data if row.state is not None else None,
            "reads": row.reads,
            "writes": row.writes,
            "log": row.log,
            "usage": row.usage,
            "queued_at": clock.to_wire(row.queued_at) if row.queued_at else None,
            "started_at": clock.to_wire(row.started_at) if row.started_at else None,
            "ended_at": clock.to_wire(row.ended_at),
        }
    )
