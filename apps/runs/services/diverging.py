"""Comparing what a paused Run depends on with what stands, and bringing it back, inside a resume (M8).

The Run's row is locked before its places are, and places in the order of their keys, so that whoever
resumes, lands or restores at the same moment waits in one direction only.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from django.db.models.functions import Length

from apps.core import json_text
from apps.results.selectors.standing import KeptData, data_of, kept_data
from apps.results.services.restoring import HeldPlace, Restore, Restored, hold_places, restore_artifacts
from apps.runs.domain.boundaries import Dependency
from apps.runs.domain.differences import MOST_PATCHES, ArtifactDifference, Sides, StateDifference, diverged, is_small
from apps.runs.domain.divergence import Change, Scope, Standing, compare, covers, why_not_restorable
from apps.runs.models import KeptArtifact, Run, State
from apps.runs.services import changes


@dataclass(frozen=True, slots=True)
class Settled:
    """What a resume did about differences: brought back, or left as they are."""

    restored: list[Restored] = field(default_factory=list)
    state_restored: bool = False
    abandoned: list[str] = field(default_factory=list)

    def to_event(self) -> dict[str, Any]:
        """Its part of the event that tells of the resume."""
        told: dict[str, Any] = {}
        if self.restored:
            told["restored"] = [{"artifactId": one.artifact_id, "revision": one.revision} for one in self.restored]
        if self.state_restored:
            told["stateRestored"] = True
        if self.abandoned:
            told["abandoned"] = self.abandoned
        return told


@dataclass(frozen=True, slots=True)
class _Found:
    """One Artifact that differs: what the Run depends on, what stands, and where the ledger has the former."""

    kept: Dependency
    change: Change
    standing: HeldPlace | None
    at_place: HeldPlace | None
    data: KeptData | None

    @property
    def stands(self) -> HeldPlace | None:
        """What to look at now."""
        return self.standing or self.at_place

    @property
    def refusal(self) -> str | None:
        standing = _standing(self.standing)
        return why_not_restorable(self.kept, self.change, standing=standing, is_kept=self.data is not None)


def settle(run: Run, *, scope: Scope | None, abandon: bool, now: dt.datetime) -> Settled:
    """Compare a locked, paused Run with what it depends on, and do as the caller says about differences.

    Raises ``MIRROR_DIVERGED`` for those that ``scope`` does not bring back and ``abandon`` does not accept.
    A Run that was not paused at its caller's wish (R14) depends on nothing.
    """
    if run.dependencies is None:
        return Settled()
    dependencies = [Dependency.from_json(body) for body in run.dependencies["artifacts"]]
    returning = covers(scope, "artifacts")
    found = _differing(run, dependencies, returning=returning)
    state = _state_difference(run, run.dependencies["state"])
    if abandon:
        return Settled(abandoned=[one.kept.artifact_id for one in found])
    left = [one for one in found if not returning or one.refusal is not None]
    state_returns = state is not None and covers(scope, "state") and state.restorable
    if left or (state is not None and not state_returns):
        raise diverged(run.boundary, _shown(run, found), state, scope=scope)
    if state_returns:
        _bring_state_back(run, now)
    return Settled(_bring_back(run, found, now), state_returns)


def _standing(place: HeldPlace | None) -> Standing | None:
    if place is None:
        return None
    return Standing(place.artifact_id, place.loom_name, place.stage_name, place.revision, place.digest)


def _differing(run: Run, dependencies: Sequence[Dependency], *, returning: bool) -> list[_Found]:
    """The Artifacts that differ, with their places locked, and made where what is ``returning`` needs them."""
    held = hold_places(
        project_id=run.project_id,
        artifact_ids={one.artifact_id for one in dependencies},
        places={(one.loom_name, one.stage_name) for one in dependencies},
        new={(one.loom_name, one.stage_name) for one in dependencies if returning and not one.removed},
    )
    by_place = {(one.loom_name, one.stage_name): one for one in held}
    by_id = {one.artifact_id: one for one in held if one.artifact_id is not None}
    differing = []
    for kept in dependencies:
        standing, at_place = by_id.get(kept.artifact_id), by_place.get((kept.loom_name, kept.stage_name))
        change = compare(kept, standing=_standing(standing), at_place=_standing(at_place))
        if change is not None:
            differing.append((kept, change, standing, at_place))
    wanted = {kept.artifact_id: kept.digest for kept, *_ in differing if not kept.removed}
    data = kept_data(project_id=run.project_id, wanted=wanted)
    if missing := wanted.keys() - data.keys():
        data |= _beside(run, {artifact_id: wanted[artifact_id] for artifact_id in missing})
    return [_Found(*one, data.get(one[0].artifact_id)) for one in differing]


def _beside(run: Run, wanted: dict[str, str]) -> dict[str, KeptData]:
    """Data that came with a Mirror."""
    rows = KeptArtifact.objects.filter(run_id=run.pk, artifact_id__in=list(wanted)).order_by()
    columns = rows.values_list("artifact_id", "digest", "id", Length("data"))
    return {
        artifact_id: KeptData(key, size) for artifact_id, digest, key, size in columns if wanted[artifact_id] == digest
    }


def _load(run: Run, keys: set[uuid.UUID]) -> dict[uuid.UUID, Any]:
    """Data of revisions, and what is kept beside the Run."""
    data = data_of(keys)
    if missing := keys - data.keys():
        rows = KeptArtifact.objects.filter(run_id=run.pk, id__in=missing).order_by()
        data |= dict(rows.values_list("id", "data"))
    return data


def _shown(run: Run, found: Sequence[_Found]) -> list[ArtifactDifference]:
    """The differences to tell; the first few with their data, where both sides are small."""
    small: set[uuid.UUID] = set()
    for one in found[:MOST_PATCHES]:
        if one.data and one.standing and is_small(one.data.size, one.standing.size):
            small |= {one.data.key, one.standing.revision_key}
    data = _load(run, small)
    return [
        ArtifactDifference(
            kept=one.kept,
            change=one.change,
            standing=_standing(one.standing),
            at_place=_standing(one.at_place),
            run_id=str(one.stands.run_id) if one.stands else None,
            sides=_sides(one, data),
            refusal=one.refusal,
        )
        for one in found
    ]


def _sides(one: _Found, data: dict[uuid.UUID, Any]) -> Sides:
    then, now = one.data, one.standing
    sizes = Sides(then_size=then.size if then else None, now_size=now.size if now else None)
    if then is None or now is None or then.key not in data or now.revision_key not in data:
        return sizes
    return replace(sizes, then=data[then.key], now=data[now.revision_key], is_read=True)


def _bring_back(run: Run, returning: Sequence[_Found], now: dt.datetime) -> list[Restored]:
    data = _load(run, {one.data.key for one in returning if one.data})
    restores = [
        Restore(one.kept.loom_name, one.kept.stage_name, one.kept.artifact_id, remove=True)
        if one.data is None
        else Restore(one.kept.loom_name, one.kept.stage_name, one.kept.artifact_id, data[one.data.key])
        for one in returning
    ]
    return restore_artifacts(project_id=run.project_id, run_id=run.pk, restores=restores, now=changes.moment(run, now))


def _kept_state(run: Run) -> State | None:
    """The State of the pause, while it still holds what it held."""
    kept = run.dependencies["state"]
    if kept is None:
        return None
    row = State.objects.filter(pk=kept["id"], run_id=run.pk).first()
    return row if row is not None and json_text.digest(row.data) == kept["digest"] else None


def _state_difference(run: Run, kept: dict[str, str] | None) -> StateDifference | None:
    then_digest = None if kept is None else kept["digest"]
    now_digest = None if run.state is None else json_text.digest(run.state.data)
    if then_digest == now_digest:
        return None
    then = _kept_state(run)
    then_size = len(json_text.dumps(then.data)) if then else None
    now_size = len(json_text.dumps(run.state.data)) if run.state else None
    sides = Sides(then_size=then_size, now_size=now_size)
    if then is not None and run.state is not None and is_small(then_size, now_size):
        sides = replace(sides, then=then.data, now=run.state.data, is_read=True)
    return StateDifference(run.stage, then_digest, now_digest, sides, then is not None or kept is None)


def _bring_state_back(run: Run, now: dt.datetime) -> None:
    then = _kept_state(run)
    if then is None:
        run.state = None
        return
    run.state = State.objects.create(run=run, stage=then.stage, data=then.data, created_at=changes.moment(run, now))
