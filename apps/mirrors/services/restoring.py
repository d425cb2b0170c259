"""Restoring a Mirror: the plan is carried out whole or not at all, and no Code is run (M5, M7)."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace

from django.db import IntegrityError, transaction

from apps.core.caller import Caller
from apps.core.database import lock_name
from apps.core.failpoints import Failpoint, reach
from apps.core.ids import new_id
from apps.looms.services.releases import keep_untrusted
from apps.mirrors.bundles.lines import ArtifactLine, Dependency, RecordLine, RunLine, StateLine
from apps.mirrors.contracts import PlanEntry
from apps.mirrors.domain.planning import Action
from apps.mirrors.models import Placement
from apps.mirrors.services.keeping import Taken
from apps.mirrors.services.planning import Target, has_conflict, make_plan
from apps.results.selectors.mirroring import batches
from apps.results.services.mirroring import NewArtifact, NewRecord, hold_places, put_artifact, put_records
from apps.runs.domain import boundaries
from apps.runs.domain.facts import Position
from apps.runs.selectors.mirroring import run_of_mirror
from apps.runs.services.exclusivity import hold_exclusive
from apps.runs.services.restoring import ArtifactData, create_paused_run

#: Records that are held and written at once.
_RECORDS = 10


@dataclass(frozen=True, slots=True)
class Restored:
    """The plan, whether it was carried out, and the Run that was restored, now or before."""

    plan: list[PlanEntry]
    applied: bool
    run_id: uuid.UUID | None


class _Conflict(Exception):
    """Takes back what was locked and made for a plan that cannot be carried out."""

    def __init__(self, plan: list[PlanEntry]) -> None:
        super().__init__()
        self.plan = plan


def restore_mirror(*, caller: Caller, target: Target, found: Taken, dry_run: bool, now: dt.datetime) -> Restored:
    """Say what restoring does, and unless it is a ``dry_run`` or something is in the way, do it."""
    if dry_run:
        plan, applied = make_plan(target, found), False
    else:
        plan, applied = _apply(caller, target, found, now)
    run_id = run_of_mirror(project_id=target.project_id, mirror_id=target.mirror_id) if target.with_run else None
    return Restored(plan, applied, run_id)


def _apply(caller: Caller, target: Target, found: Taken, now: dt.datetime) -> tuple[list[PlanEntry], bool]:
    try:
        try:
            return _apply_once(caller, target, found, now), True
        except IntegrityError:
            # Somebody took one of these ids at the same moment; what they put there can be seen now.
            return _apply_once(caller, target, found, now), True
    except _Conflict as conflict:
        return conflict.plan, False


def _apply_once(caller: Caller, target: Target, found: Taken, now: dt.datetime) -> list[PlanEntry]:
    with transaction.atomic():
        _hold(target, found)
        plan = make_plan(target, found)
        if has_conflict(plan):
            raise _Conflict(plan)
        todo: dict[tuple[str, str], Action] = {(entry.kind, entry.id): Action(entry.action) for entry in plan}
        placing = _Placing(caller, target, found, todo, now)
        revisions = placing.artifacts()
        placing.records()
        placing.run(revisions)
        reach(Failpoint.IN_MIRROR_RESTORE)
    return plan


def _hold(target: Target, found: Taken) -> None:
    """Everything that the plan looks at stays as it is until the end; in the order in which everybody locks."""
    run = found.content.run
    lock_name("mirror", target.project_id, target.mirror_id)
    if target.with_run and run.exclusive:
        hold_exclusive(project_id=target.project_id, loom_name=run.loom_name)
    if target.with_artifacts:
        hold_places(
            project_id=target.project_id,
            artifact_ids={one.artifact_id for one in run.held.dependencies},
            places={(one.loom_name, one.stage_name) for one in run.held.dependencies},
        )


@dataclass(frozen=True, slots=True)
class _Placing:
    """Carrying out a plan inside its transaction, a few values at a time."""

    caller: Caller
    target: Target
    found: Taken
    todo: dict[tuple[str, str], Action]
    now: dt.datetime

    def artifacts(self) -> dict[str, int]:
        """Write what is to be created or replaced; Artifact → the revision that it is now."""
        last_seen = self._last_seen()
        written: dict[str, int] = {}
        # What is to go makes room for what is to come at the same place.
        for removed in sorted({one.removed for one in last_seen.values()}, reverse=True):
            for line in self.found.bundle.lines_again(ArtifactLine):
                seen = last_seen.get((line.loom_name, line.stage_name, line.revision, line.artifact_id))
                if seen is not None and seen.removed is removed and self._is_due("artifact", line.artifact_id):
                    written[line.artifact_id] = put_artifact(
                        project_id=self.target.project_id, artifact=_new_artifact(line), now=self.now
                    )
        Placement.objects.bulk_create(
            self._placement("artifact", one.artifact_id, one.loom_name, one.stage_name, written[one.artifact_id])
            for one in last_seen.values()
            if one.artifact_id in written
        )
        return written

    def records(self) -> None:
        """Write the Records that are not there."""
        due = (line for line in self.found.bundle.lines_again(RecordLine) if self._is_due("record", line.record_id))
        for some in batches(due, _RECORDS):
            put_records(project_id=self.target.project_id, records=[_new_record(line) for line in some])
            Placement.objects.bulk_create(
                self._placement("record", line.record_id, line.loom_name, line.stage_name, None) for line in some
            )

    def run(self, revisions: dict[str, int]) -> None:
        """Keep the Release, and begin the paused Run."""
        content = self.found.content
        if self._is_due("release", content.release.digest):
            keep_untrusted(
                digest=content.release.digest,
                loom_name=content.release.loom_name,
                requires=content.release.requires,
                files=content.files,
                now=self.now,
            )
        if self._is_due("run", content.run.run_id):
            create_paused_run(
                caller=self.caller,
                project_id=self.target.project_id,
                held=self._held(revisions),
                mirror_id=self.target.mirror_id,
                origin=None,
                artifacts=self._artifact_data(),
                now=self.now,
            )

    def _is_due(self, kind: str, item_id: str) -> bool:
        return self.todo.get((kind, item_id)) in (Action.CREATE, Action.REPLACE)

    def _last_seen(self) -> dict[tuple[str, str, int, str], Dependency]:
        wanted = self.found.content.run.held.dependencies
        return {(one.loom_name, one.stage_name, one.revision, one.artifact_id): one for one in wanted}

    def _artifact_data(self) -> Iterator[ArtifactData]:
        last_seen = self._last_seen()
        for line in self.found.bundle.lines_again(ArtifactLine):
            if not line.removed and (line.loom_name, line.stage_name, line.revision, line.artifact_id) in last_seen:
                yield ArtifactData(line.artifact_id, line.digest, line.data)

    def _held(self, revisions: dict[str, int]) -> boundaries.HeldBoundary:
        run = self.found.content.run
        held = _held_boundary(run, self._state(run), self.target.project_id)
        # Where it was just put, it has the number of its revision here.
        moved = (replace(one, revision=revisions.get(one.artifact_id, one.revision)) for one in held.dependencies)
        return replace(held, dependencies=tuple(moved))

    def _state(self, run: RunLine) -> boundaries.HeldState | None:
        if run.held.state_id is None:
            return None
        for line in self.found.bundle.lines_again(StateLine):
            if line.state_id == run.held.state_id:
                return boundaries.HeldState(uuid.UUID(line.state_id), line.stage, line.data, line.digest)
        raise AssertionError("the bundle was checked")

    def _placement(self, kind: str, item_id: str, loom_name: str, stage_name: str, revision: int | None) -> Placement:
        return Placement(
            id=new_id(),
            project_id=self.target.project_id,
            mirror_id=self.target.mirror_id,
            trace_id=uuid.UUID(self.found.content.run.trace_id),
            kind=kind,
            item_id=item_id,
            loom_name=loom_name,
            stage_name=stage_name,
            revision=revision,
            principal=self.caller.principal,
            source=self.caller.source,
            entry=self.caller.entry,
            created_at=self.now,
        )


def _new_artifact(line: ArtifactLine) -> NewArtifact:
    return NewArtifact(
        artifact_id=line.artifact_id,
        loom_name=line.loom_name,
        stage_name=line.stage_name,
        revision=line.revision,
        removed=line.removed,
        data=line.data,
        digest=line.digest,
        run_id=uuid.UUID(line.run_id),
    )


def _new_record(line: RecordLine) -> NewRecord:
    return NewRecord(
        record_id=line.record_id,
        loom_name=line.loom_name,
        stage_name=line.stage_name,
        data=line.data,
        digest=line.digest,
        run_id=uuid.UUID(line.run_id),
        created_at=dt.datetime.fromisoformat(line.created_at),
    )


def _held_boundary(run: RunLine, state: boundaries.HeldState | None, project_id: uuid.UUID) -> boundaries.HeldBoundary:
    held = run.held
    return boundaries.HeldBoundary(
        run_id=uuid.UUID(run.run_id),
        trace_id=uuid.UUID(run.trace_id),
        project_id=project_id,
        loom_name=run.loom_name,
        release_digest=run.release_digest,
        exclusive=run.exclusive,
        input=run.input,
        boundary=held.boundary,
        position=Position(held.stage, held.step, held.visit),
        outcome=held.outcome,
        result=held.result,
        visits=held.visits,
        state=state,
        dependencies=tuple(boundaries.Dependency(**one.model_dump()) for one in held.dependencies),
        artifact_ids=tuple(held.artifact_ids),
        record_ids=tuple(held.record_ids),
        event_seq=1,
        step_seq=0,
        reached_at=dt.datetime.fromisoformat(held.reached_at),
    )
