"""One Run as an operator sees it: its view and what stands behind it."""

from __future__ import annotations

import datetime as dt
import itertools
import uuid
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from apps.core.database import database_now, holds
from apps.core.errors import not_found
from apps.ledger.selectors.instances import current_id, require_open
from apps.runs import contracts
from apps.runs.domain.statuses import RunStatus, SegmentKind
from apps.runs.models import Action, Run, StepAttempt
from apps.runs.selectors.runs import view_of


@dataclass(frozen=True, slots=True)
class RunDetail:
    """The view with its Project, what is due, who holds it, and whether that worker still shows life.

    ``is_saved``: a Step's result is kept, unrouted, until the Run is resumed.  ``is_retry``: the due segment failed
    before and is tried again.  ``state`` is that of the present Stage.
    """

    view: contracts.RunView
    project_id: uuid.UUID
    due_at: dt.datetime | None
    is_retry: bool
    worker: str
    is_left: bool
    segment_started_at: dt.datetime | None
    is_saved: bool
    #: So many have ended.
    attempts: int
    state: Any


#: Values that may be large and that the page, which follows along, says nothing of.
_NOT_SHOWN = ("previous", "saved_result", "answer", "policy", "visits", "dependencies")


def run_detail(*, project_ids: Collection[uuid.UUID], run_id: uuid.UUID) -> RunDetail:
    """The Run, if it is of one of these Projects; else ``NOT_FOUND``, as for an unknown id (E5)."""
    rows = Run.objects.select_related("project", "pending_action", "state").defer(*_NOT_SHOWN)
    rows = rows.annotate(
        is_left=holds(status=RunStatus.RUNNING, lease_expires_at__lt=database_now()),
        is_saved=holds(saved_result__isnull=False),
        current_instance_id=current_id(),
    )
    run = rows.filter(pk=run_id, project_id__in=project_ids).first()
    if run is None:
        raise not_found("Run", str(run_id))
    return RunDetail(
        view=view_of(run, current=require_open(run.current_instance_id)),
        project_id=run.project_id,
        due_at=run.due_at,
        is_retry=run.attempts > 0,
        worker=run.lease_owner,
        is_left=run.is_left,
        segment_started_at=run.segment_started_at,
        is_saved=run.is_saved,
        attempts=run.step_seq,
        state=None if run.state is None else run.state.data,
    )


@dataclass(frozen=True, slots=True)
class ActionEntry:
    """What a person was asked, and what was answered by whom (H6)."""

    id: uuid.UUID
    kind: str
    request: Any
    only_person: bool
    answer: Any
    answered_by: dict[str, str] | None
    created_at: dt.datetime
    answered_at: dt.datetime | None


def actions_of_run(*, run_id: uuid.UUID, limit: int) -> list[ActionEntry]:
    """The newest Actions of a Run, newest first."""
    return [_action(row) for row in Action.objects.filter(run_id=run_id).order_by("-id")[:limit]]


def action_of_run(*, run_id: uuid.UUID, action_id: str) -> ActionEntry | None:
    """The Action of this id, if it is the Run's."""
    try:
        row = Action.objects.filter(run_id=run_id, pk=uuid.UUID(action_id)).first()
    except ValueError:
        return None
    return None if row is None else _action(row)


def _action(row: Action) -> ActionEntry:
    return ActionEntry(
        row.pk, row.kind, row.request, row.only_person, row.answer, row.answered_by, row.created_at, row.answered_at
    )


@dataclass(frozen=True, slots=True)
class AttemptEntry:
    """An ended attempt with what it logged."""

    step_seq: int
    stage: str
    step: str
    visit: int
    kind: str
    attempt: int
    status: str
    outcome: str | None
    error: dict[str, Any] | None
    log: list[dict[str, str]]
    reads: list[dict[str, Any]]
    worker: str
    queued_at: dt.datetime | None
    started_at: dt.datetime | None
    ended_at: dt.datetime


def attempts_before(*, run_id: uuid.UUID, step_seq: int | None, limit: int) -> list[AttemptEntry]:
    """At most ``limit`` attempts that ended before one (``None``: the last ones), newest first."""
    rows = StepAttempt.objects.filter(run_id=run_id).order_by("-step_seq")
    if step_seq is not None:
        rows = rows.filter(step_seq__lt=step_seq)
    return [
        AttemptEntry(
            row.step_seq,
            row.stage,
            row.step,
            row.visit,
            row.kind,
            row.attempt,
            row.status,
            row.outcome,
            row.error,
            row.log,
            row.reads,
            row.worker,
            row.queued_at,
            row.started_at,
            row.ended_at,
        )
        for row in rows[:limit]
    ]


@dataclass(frozen=True, slots=True)
class StateChange:
    """The State that an attempt left, and the one that it found (``None`` at a Stage's beginning)."""

    step_seq: int
    stage: str
    step: str
    visit: int
    at: dt.datetime
    before: Any
    after: Any


def state_changes(*, run_id: uuid.UUID, step_seq: int | None, limit: int) -> tuple[list[StateChange], int | None]:
    """The attempts that changed the State, among at most ``limit`` that ended before one, newest first.

    With them the ``step_seq`` to go on from, ``None`` where there are no more.
    """
    rows = StepAttempt.objects.select_related("state").filter(run_id=run_id, state__isnull=False)
    if step_seq is not None:
        rows = rows.filter(step_seq__lt=step_seq)
    page = list(rows.order_by("-step_seq")[: limit + 1])
    changes: list[StateChange] = []
    for row, earlier in itertools.zip_longest(page[:limit], page[1:]):
        found = None
        if earlier is not None and earlier.stage == row.stage and row.kind != SegmentKind.INITIALIZE:
            if earlier.state_id == row.state_id:
                continue
            found = earlier.state.data if earlier.state is not None else None
        assert row.state is not None
        changes.append(StateChange(row.step_seq, row.stage, row.step, row.visit, row.ended_at, found, row.state.data))
    return changes, page[limit - 1].step_seq if len(page) > limit else None
