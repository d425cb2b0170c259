"""A Run's trace as a Mirror has it: members of its lines, read a few rows at a time (M1).

Everything is cut at a boundary: what the Run did later is not in it.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterator
from typing import Any

from django.db.models import Q

from apps.core import clock, json_text
from apps.runs.models import Action, KeptArtifact, Run, State, StepAttempt

#: Rows that are held at once: each may have values of a megabyte.
ROWS = 10


def newest_run(*, project_id: uuid.UUID, trace_id: uuid.UUID) -> uuid.UUID | None:
    """The Run of the trace that began last in the Project."""
    rows = Run.objects.filter(project_id=project_id, trace_id=trace_id).order_by("-id")
    return rows.values_list("id", flat=True).first()


def run_members(run_id: uuid.UUID) -> dict[str, Any]:
    """What a Run was admitted with."""
    run = Run.objects.get(pk=run_id)
    origin = None
    if run.origin_operation_id is not None:
        origin = {"operationId": str(run.origin_operation_id), "serviceInstanceId": str(run.origin_instance_id)}
    return {
        "execution": {
            "source": run.source,
            "agentExecutor": run.agent_executor,
            "profile": run.profile or None,
        },
        "origin": origin,
        "restoredFrom": run.restored_from,
        "createdAt": clock.to_wire(run.created_at),
    }


def step_lines(run_id: uuid.UUID, *, before: int) -> Iterator[dict[str, Any]]:
    """Attempts with a ``stepSeq`` below ``before``, in order."""
    rows = StepAttempt.objects.filter(run_id=run_id, step_seq__lt=before).defer("log").order_by("step_seq")
    for row in rows.iterator(chunk_size=ROWS):
        yield {
            "stepSeq": row.step_seq,
            "stage": row.stage,
            "step": row.step,
            "visit": row.visit,
            "kind": row.kind,
            "segment": row.segment,
            "attempt": row.attempt,
            "status": row.status,
            "outcome": row.outcome,
            "error": row.error,
            "stateId": str(row.state_id) if row.state_id else None,
            "boundary": row.boundary,
            "result": row.result,
            "eventSeq": row.event_seq,
            "reads": row.reads,
            "writes": row.writes,
            "queuedAt": _time(row.queued_at),
            "startedAt": _time(row.started_at),
            "endedAt": clock.to_wire(row.ended_at),
        }


def log_lines(run_id: uuid.UUID, *, before: int) -> Iterator[dict[str, Any]]:
    """What those attempts logged."""
    rows = StepAttempt.objects.filter(run_id=run_id, step_seq__lt=before).exclude(log=[]).order_by("step_seq")
    for step_seq, log in rows.values_list("step_seq", "log").iterator(chunk_size=ROWS):
        for number, line in enumerate(log, start=1):
            yield {"stepSeq": step_seq, "eventSeq": None, "number": number, **line}


def state_lines(run_id: uuid.UUID, *, before: int, also: uuid.UUID | None) -> Iterator[dict[str, Any]]:
    """The States after those attempts, and the one at the boundary."""
    attempts = StepAttempt.objects.filter(run_id=run_id, step_seq__lt=before, state__isnull=False)
    rows = State.objects.filter(Q(pk__in=attempts.order_by().values("state_id")) | Q(pk=also), run_id=run_id)
    for row in rows.order_by("pk").iterator(chunk_size=ROWS):
        yield {
            "stateId": str(row.pk),
            "stage": row.stage,
            "digest": json_text.digest(row.data),
            "data": row.data,
            "createdAt": clock.to_wire(row.created_at),
        }


def action_lines(run_id: uuid.UUID, action_ids: Collection[str]) -> Iterator[dict[str, Any]]:
    """These Actions, by id."""
    for row in Action.objects.filter(run_id=run_id).order_by("pk").iterator(chunk_size=ROWS):
        if str(row.pk) in action_ids:
            yield {
                "actionId": str(row.pk),
                "kind": row.kind,
                "request": row.request,
                "onlyPerson": row.only_person,
                "answer": row.answer,
                "answeredBy": row.answered_by,
                "createdAt": clock.to_wire(row.created_at),
                "answeredAt": _time(row.answered_at),
            }


def touched_artifacts(run_id: uuid.UUID, *, before: int) -> tuple[set[tuple[str, str, str, int]], set[str]]:
    """(loomName, stageName, artifactId, revision) of Artifacts and the ids of Records that were read or written."""
    artifacts: set[tuple[str, str, str, int]] = set()
    records: set[str] = set()
    rows = StepAttempt.objects.filter(run_id=run_id, step_seq__lt=before).exclude(reads=[], writes=[]).order_by()
    for both in rows.values_list("reads", "writes").iterator(chunk_size=ROWS):
        for entries in both:
            for entry in entries:
                if "recordId" in entry:
                    records.add(entry["recordId"])
                elif "loomName" in entry:
                    key = (entry["loomName"], entry["stageName"], entry["artifactId"], entry["revision"])
                    artifacts.add(key)
    return artifacts, records


def kept_artifacts(run_id: uuid.UUID, digests: Collection[str]) -> Iterator[tuple[str, str, Any]]:
    """(artifactId, digest, data): what a restored Run's Project may never have had, as the Run brought it along."""
    rows = KeptArtifact.objects.filter(run_id=run_id, digest__in=list(digests)).order_by("artifact_id")
    for row in rows.iterator(chunk_size=ROWS):
        yield row.artifact_id, row.digest, row.data


def traces_of(*, project_id: uuid.UUID, run_ids: Collection[uuid.UUID]) -> dict[uuid.UUID, uuid.UUID]:
    """Run → its trace, for those that the Project has."""
    rows = Run.objects.filter(project_id=project_id, pk__in=list(run_ids)).order_by()
    return dict(rows.values_list("id", "trace_id"))


def run_of_mirror(*, project_id: uuid.UUID, mirror_id: uuid.UUID) -> uuid.UUID | None:
    """The Run that was restored from this Mirror into the Project."""
    return Run.objects.filter(project_id=project_id, mirror_id=mirror_id).values_list("id", flat=True).first()


def _time(moment: Any) -> str | None:
    return None if moment is None else clock.to_wire(moment)
