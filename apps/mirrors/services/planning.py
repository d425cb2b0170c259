"""Comparing a Mirror with what a Project has, for a plan that is shown or carried out (M5)."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass

from apps.looms.domain.names import LOOM_FILE
from apps.looms.selectors.releases import is_trusted, loom_of
from apps.looms.services.declared import declared_name
from apps.mirrors.bundles.layout import RELEASE_FOLDER
from apps.mirrors.bundles.lines import Dependency, RecordLine
from apps.mirrors.bundles.refusals import MirrorInvalid
from apps.mirrors.contracts import PlanEntry, Scope
from apps.mirrors.domain.planning import (
    Action,
    Decision,
    Standing,
    decide_artifact,
    decide_record,
    decide_release,
    decide_run,
)
from apps.mirrors.selectors.mirrors import placed_by, traces_of_placed
from apps.mirrors.services.keeping import Taken
from apps.results.selectors.mirroring import PlaceNow, batches, places_now, record_digests
from apps.runs.selectors.exclusivity import open_run
from apps.runs.selectors.mirroring import run_of_mirror, traces_of


@dataclass(frozen=True, slots=True)
class Target:
    """What is restored where."""

    mirror_id: uuid.UUID
    project_id: uuid.UUID
    scope: Scope

    @property
    def with_artifacts(self) -> bool:
        return self.scope in ("artifacts", "all")

    @property
    def with_records(self) -> bool:
        return self.scope in ("records", "all")

    @property
    def with_run(self) -> bool:
        return self.scope in ("run", "all")


def make_plan(target: Target, found: Taken) -> list[PlanEntry]:
    """What restoring does, thing by thing, as everything stands now.

    Raises :class:`MirrorInvalid` for a Run whose Release is another Loom's.
    """
    placed = placed_by(project_id=target.project_id, mirror_id=target.mirror_id)
    plan: list[PlanEntry] = []
    if target.with_artifacts:
        plan += _artifacts(target, found, placed)
    if target.with_records:
        plan += _records(target, found, placed)
    if target.with_run:
        plan += _run(target, found)
    return plan


def _entry(kind: str, item_id: str, decision: Decision) -> PlanEntry:
    return PlanEntry.model_validate(
        {"kind": kind, "id": item_id, "action": decision.action.value, "reason": decision.reason}
    )


def _artifacts(target: Target, found: Taken, placed: set[tuple[str, str]]) -> Iterator[PlanEntry]:
    wanted = found.content.run.held.dependencies
    now = places_now(
        project_id=target.project_id,
        artifact_ids={one.artifact_id for one in wanted},
        places={(one.loom_name, one.stage_name) for one in wanted},
    )
    by_place = {(place.loom_name, place.stage_name): place for place in now}
    by_id = {place.artifact_id: place for place in now if place.artifact_id is not None}
    mine = _of_trace(target, uuid.UUID(found.content.run.trace_id), now)
    for one in wanted:
        here = by_place.get((one.loom_name, one.stage_name))
        decision = decide_artifact(
            artifact_id=one.artifact_id,
            digest=one.digest,
            removed=one.removed,
            placed=("artifact", one.artifact_id) in placed,
            here=_standing(here, mine),
            elsewhere=_elsewhere(by_id.get(one.artifact_id), one),
        )
        yield _entry("artifact", one.artifact_id, decision)


def _standing(here: PlaceNow | None, mine: set[tuple[str, str]]) -> Standing | None:
    if here is None or here.artifact_id is None or here.digest is None:
        return None
    return Standing(here.artifact_id, here.digest, (here.loom_name, here.stage_name) in mine)


def _elsewhere(stands: PlaceNow | None, one: Dependency) -> str | None:
    if stands is None or (stands.loom_name, stands.stage_name) == (one.loom_name, one.stage_name):
        return None
    return f"{stands.loom_name}/{stands.stage_name}"


def _of_trace(target: Target, trace_id: uuid.UUID, now: list[PlaceNow]) -> set[tuple[str, str]]:
    """The places at which a Run of this trace, or a Mirror of it, put what stands there."""
    run_ids = {place.run_id for place in now if place.run_id is not None}
    traces = traces_of(project_id=target.project_id, run_ids=run_ids)
    keys = {(place.loom_name, place.stage_name, place.revision) for place in now}
    by_mirrors = traces_of_placed(project_id=target.project_id, places=keys)
    return {
        (place.loom_name, place.stage_name)
        for place in now
        if trace_id
        in (
            place.run_id and traces.get(place.run_id),
            by_mirrors.get((place.loom_name, place.stage_name, place.revision)),
        )
    }


def _records(target: Target, found: Taken, placed: set[tuple[str, str]]) -> Iterator[PlanEntry]:
    for some in batches((line.record_id, line.digest) for line in found.bundle.lines_again(RecordLine)):
        known = record_digests(project_id=target.project_id, record_ids=[record_id for record_id, _ in some])
        for record_id, digest in some:
            decision = decide_record(
                digest=digest, placed=("record", record_id) in placed, known_digest=known.get(record_id)
            )
            yield _entry("record", record_id, decision)


def _run(target: Target, found: Taken) -> Iterator[PlanEntry]:
    run, release = found.content.run, found.content.release
    trusted = is_trusted(release.digest)
    # The digest does not cover the name beside it: under another one it would pass for another Loom's.
    if (loom_of(release.digest) or declared_name(found.content.files)) != run.loom_name:
        raise MirrorInvalid(f"it is not the one of a Loom named {run.loom_name}", entry=f"{RELEASE_FOLDER}{LOOM_FILE}")
    yield _entry("release", release.digest, decide_release(trusted=trusted))
    restored = run_of_mirror(project_id=target.project_id, mirror_id=target.mirror_id)
    other = open_run(project_id=target.project_id, loom_name=run.loom_name) if run.exclusive else None
    decision = decide_run(restored=str(restored) if restored else None, other=str(other) if other else None)
    yield _entry("run", run.run_id, decision)


def has_conflict(plan: list[PlanEntry]) -> bool:
    """Whether nothing at all may be written."""
    return any(Action(entry.action) is Action.CONFLICT for entry in plan)
