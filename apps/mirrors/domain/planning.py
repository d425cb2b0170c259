"""What restoring does with each thing that a Mirror holds (M5): decisions over plain values."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Action(enum.StrEnum):
    """What becomes of one thing."""

    CREATE = "create"
    REPLACE = "replace"
    UNCHANGED = "unchanged"
    #: Nothing at all is written then.
    CONFLICT = "conflict"


@dataclass(frozen=True, slots=True)
class Decision:
    """The action, and the reason where it needs one."""

    action: Action
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Standing:
    """What stands at a place now; ``of_trace``: this trace put it there."""

    artifact_id: str
    digest: str
    of_trace: bool


def decide_artifact(
    *,
    artifact_id: str,
    digest: str,
    removed: bool,
    placed: bool,
    here: Standing | None,
    elsewhere: str | None,
) -> Decision:
    """An Artifact as the Run last saw it; ``removed``: it saw nothing of this id any more.

    ``placed``: this Mirror once put it into the Project.  ``here``: what stands at its place.  ``elsewhere``: the
    place at which its id stands now, if that is another one.
    """
    if placed:
        return Decision(Action.UNCHANGED, "this Mirror put it here before")
    if elsewhere is not None:
        return Decision(Action.CONFLICT, f"the id stands at {elsewhere}")
    if removed:
        if here is None or here.artifact_id != artifact_id:
            return Decision(Action.UNCHANGED, "nothing of this id stands here, as at the boundary")
        if here.of_trace:
            return Decision(Action.REPLACE, "it is removed, as at the boundary")
        return Decision(Action.CONFLICT, "it was removed at the boundary, and another trace's stands here now")
    if here is None:
        return Decision(Action.CREATE)
    if (here.artifact_id, here.digest) == (artifact_id, digest):
        return Decision(Action.UNCHANGED)
    if here.of_trace:
        return Decision(Action.REPLACE)
    return Decision(Action.CONFLICT, "other data of another trace stands here")


def decide_record(*, digest: str, placed: bool, known_digest: str | None) -> Decision:
    """A Record; they never change, so another one of the same id is in the way.

    ``placed``: this Mirror once put it into the Project.
    """
    if known_digest == digest:
        return Decision(Action.UNCHANGED)
    if placed:
        return Decision(Action.UNCHANGED, "this Mirror put it here before")
    if known_digest is None:
        return Decision(Action.CREATE)
    return Decision(Action.CONFLICT, "there is a Record of this id with other data")


def decide_release(*, trusted: bool | None) -> Decision:
    """The Release's files; ``trusted`` is None where the ledger has none of its digest."""
    if trusted:
        return Decision(Action.UNCHANGED)
    action = Action.CREATE if trusted is None else Action.UNCHANGED
    return Decision(action, "its Code runs once an operator trusts its digest (release_trust)")


def decide_run(*, restored: str | None, other: str | None) -> Decision:
    """``restored``: the Run that was restored from this Mirror before; ``other``: one that an exclusive Loom has."""
    if restored is not None:
        return Decision(Action.UNCHANGED, f"it was restored before, as Run {restored}")
    if other is not None:
        return Decision(Action.CONFLICT, f"its Loom runs one at a time, and Run {other} has not ended")
    return Decision(Action.CREATE, "paused at the boundary, as a new Run")
