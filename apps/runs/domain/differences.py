"""Telling a person what changed while a Run rested, and the three ways on (M8)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jsonpatch

from apps.core import json_text
from apps.core.errors import MAX_ISSUES, ErrorCode, LoomError
from apps.runs.domain.boundaries import Dependency
from apps.runs.domain.divergence import Change, Scope, Standing

#: Beyond this many characters of JSON, on either side, only the sizes are told: comparing takes longer than its size
#: grows, and what others wait for is locked meanwhile.
PATCHED_CHARACTERS = 8 * 1024
#: So many Artifacts are compared.
MOST_PATCHES = 10
#: A patch is told while it is shorter than this.
_PATCH_CHARACTERS = 2048
#: So many places are named in the message itself.
_NAMED = 3


def is_small(*sizes: int | None) -> bool:
    """Whether data of these sizes is compared; None stands for a side that is not there."""
    return all(size is not None and size <= PATCHED_CHARACTERS for size in sizes)


@dataclass(frozen=True, slots=True)
class Sides:
    """The data on both sides, where ``is_read``; the number of characters of its JSON, where it is known."""

    then: Any = None
    now: Any = None
    then_size: int | None = None
    now_size: int | None = None
    is_read: bool = False

    def to_wire(self) -> dict[str, Any]:
        """``size``, and a JSON Patch (RFC 6902) from then to now where it is short."""
        told: dict[str, Any] = {}
        sizes = {"then": self.then_size, "now": self.now_size}
        if known := {side: size for side, size in sizes.items() if size is not None}:
            told["size"] = known
        if self.is_read:
            patch = jsonpatch.make_patch(self.then, self.now).patch
            if len(json_text.dumps(patch)) <= _PATCH_CHARACTERS:
                told["patch"] = patch
        return told


@dataclass(frozen=True, slots=True)
class ArtifactDifference:
    """One Artifact that is not as the Run depends on it.

    ``standing`` is where its id stands now, ``at_place`` what its place holds; ``run_id`` made the latter.
    ``refusal``: why it cannot be brought back.
    """

    kept: Dependency
    change: Change
    standing: Standing | None
    at_place: Standing | None
    run_id: str | None
    sides: Sides
    refusal: str | None

    def in_words(self) -> str:
        kept = self.kept
        name = f"Artifact {kept.artifact_id} at {kept.loom_name}/{kept.stage_name}"
        stands = self.standing or self.at_place
        at = "" if stands is None else f" (revision {stands.revision} now)"
        match self.change:
            case Change.CHANGED:
                return f"{name} was at revision {kept.revision} and holds other data{at}"
            case Change.REMOVED:
                return f"{name} was at revision {kept.revision} and does not stand any more"
            case Change.REPLACED:
                other = self.at_place.artifact_id if self.at_place else None
                return f"{name} was at revision {kept.revision}, and Artifact {other} stands in its place{at}"
            case Change.MOVED:
                assert self.standing is not None
                where = f"{self.standing.loom_name}/{self.standing.stage_name}"
                return f"{name} was at revision {kept.revision} and stands at {where} now{at}"
            case Change.APPEARED:
                return f"{name} did not stand there and does now{at}"

    def to_wire(self) -> dict[str, Any]:
        kept = self.kept
        then = {"removed": True} if kept.removed else {"revision": kept.revision, "digest": kept.digest}
        told = {
            "kind": "artifact",
            "artifactId": kept.artifact_id,
            "loomName": kept.loom_name,
            "stageName": kept.stage_name,
            "change": self.change.value,
            "then": then,
            "now": self._now(),
            **self.sides.to_wire(),
            "restorable": self.refusal is None,
        }
        return told if self.refusal is None else {**told, "because": self.refusal}

    def _now(self) -> dict[str, Any]:
        stands = self.standing or self.at_place
        by = {} if self.run_id is None else {"runId": self.run_id}
        if stands is None:
            return {"removed": True}
        if stands.artifact_id is None:
            return {"removed": True, "revision": stands.revision, **by}
        return {
            "artifactId": stands.artifact_id,
            "loomName": stands.loom_name,
            "stageName": stands.stage_name,
            "revision": stands.revision,
            "digest": stands.digest,
            **by,
        }


@dataclass(frozen=True, slots=True)
class StateDifference:
    """The Stage's State is not the one of the pause; without ``restorable``, that one is not kept any more."""

    stage: str
    then_digest: str | None
    now_digest: str | None
    sides: Sides
    restorable: bool

    def in_words(self) -> str:
        return f"the State of Stage {self.stage} is another one"

    def to_wire(self) -> dict[str, Any]:
        told = {
            "kind": "state",
            "stageName": self.stage,
            "change": Change.CHANGED.value,
            "then": {"digest": self.then_digest},
            "now": {"digest": self.now_digest},
            **self.sides.to_wire(),
            "restorable": self.restorable,
        }
        return told if self.restorable else {**told, "because": "what the State held at the pause is not kept any more"}


def diverged(
    boundary: int, artifacts: Sequence[ArtifactDifference], state: StateDifference | None, *, scope: Scope | None
) -> LoomError:
    """``MIRROR_DIVERGED`` with every difference (at most 50) and how to go on; ``scope`` did not settle them all."""
    differences: list[ArtifactDifference | StateDifference] = [*artifacts, *([state] if state else [])]
    named = "; ".join(one.in_words() for one in differences[:_NAMED])
    more = f"; and {len(differences) - _NAMED} more" if len(differences) > _NAMED else ""
    wanted = _scope_for(artifacts, state)
    back = f'Resume with `scope: "{wanted}"` to bring it back as new revisions, or with '
    if scope in (wanted, "all"):
        back = f'`scope: "{scope}"` cannot bring all of it back: `because` of a difference says why. Resume with '
    elif scope is not None:
        back = f'`scope: "{scope}"` does not cover all of it. {back}'
    message = (
        f"What this Run depends on at boundary {boundary} has changed: {named}{more}. {back}`abandonMirror: true` to "
        "go on with what is there; or leave it paused, and put it right yourself."
    )
    details = {
        "boundary": boundary,
        "differences": [one.to_wire() for one in differences[:MAX_ISSUES]],
        "truncated": len(differences) > MAX_ISSUES,
        "ways": _ways(wanted),
    }
    return LoomError(ErrorCode.MIRROR_DIVERGED, message, details=details)


def _scope_for(artifacts: Sequence[ArtifactDifference], state: StateDifference | None) -> Scope:
    if state is None:
        return "artifacts"
    return "all" if artifacts else "state"


def _ways(scope: Scope) -> list[dict[str, Any]]:
    return [
        {
            "with": {"scope": scope},
            "meaning": "Bring back what the Run depends on, as new revisions, and go on from there.",
        },
        {"with": {"abandonMirror": True}, "meaning": "Go on with what stands now; nothing is changed."},
        {
            "with": {},
            "meaning": "Leave the Run paused. Once you have put back what it depends on, it resumes as usual.",
        },
    ]
