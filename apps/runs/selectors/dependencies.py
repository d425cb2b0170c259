"""Which Artifacts a Run depends on (M8).  The number of statements does not depend on how many they are."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from apps.core import json_text
from apps.results.selectors.standing import revisions_of, standing_artifacts
from apps.runs.domain.boundaries import Dependency, Seen, seen_artifacts
from apps.runs.domain.statuses import AttemptStatus
from apps.runs.models import StartingBoundary, StepAttempt

#: Of nothing: what a removed Artifact holds.
NOTHING_DIGEST = json_text.digest(None)
#: Attempts whose effects landed; what others read moved nothing (R6).
LANDED = (AttemptStatus.COMPLETED, AttemptStatus.WAITED)


def touched_by(*, run_id: uuid.UUID, before: int) -> Iterable[tuple[list[dict[str, Any]], list[dict[str, Any]]]]:
    """Reads and writes of the Run's landed attempts with a ``step_seq`` below ``before``, in order."""
    rows = StepAttempt.objects.filter(run_id=run_id, step_seq__lt=before, status__in=LANDED)
    return rows.exclude(reads=[], writes=[]).order_by("step_seq").values_list("reads", "writes")


def began_with(start: StartingBoundary | None) -> list[Dependency]:
    """What a restored or forked Run began with."""
    return [] if start is None else [Dependency.from_json(body) for body in start.dependencies]


def as_last_seen(*, project_id: uuid.UUID, seen: Mapping[str, Seen]) -> tuple[Dependency, ...]:
    """Every Artifact as the Run last saw it, ordered by id."""
    unknown = {
        (artifact_id, one.revision) for artifact_id, one in seen.items() if one.digest is None and not one.removed
    }
    kept = revisions_of(project_id=project_id, wanted=unknown)
    found = []
    for artifact_id, one in sorted(seen.items()):
        digest = NOTHING_DIGEST if one.removed else one.digest
        if digest is None:
            digest = kept[artifact_id, one.loom_name, one.stage_name, one.revision].digest
        found.append(Dependency(artifact_id, one.loom_name, one.stage_name, one.revision, digest, one.removed))
    return tuple(found)


def as_standing(*, project_id: uuid.UUID, run_id: uuid.UUID, before: int) -> tuple[Dependency, ...]:
    """Every Artifact that the Run read or wrote, as it stands now, ordered by id."""
    start = StartingBoundary.objects.filter(pk=run_id).first()
    seen = seen_artifacts(began_with(start), touched_by(run_id=run_id, before=before))
    now = standing_artifacts(project_id=project_id, artifact_ids=seen)
    found = []
    for artifact_id, one in sorted(seen.items()):
        stands = now.get(artifact_id)
        if stands is None:
            found.append(
                Dependency(artifact_id, one.loom_name, one.stage_name, one.revision, NOTHING_DIGEST, removed=True)
            )
        else:
            found.append(Dependency(artifact_id, stands.loom_name, stands.stage_name, stands.revision, stands.digest))
    return tuple(found)
