"""What the authoring surface raises when Code hands it something that cannot be kept."""

from __future__ import annotations


class ResultInvalid(ValueError):
    """Data, ids, questions or a continuation out of bounds (``STEP_RESULT_INVALID``)."""


class StateInvalid(ValueError):
    """A State that does not fit its model or its bounds (``STATE_INVALID``)."""


class SegmentOver(RuntimeError):
    """The Step went on after its timeout; nothing that it does counts any more."""


class ArtifactConflict(RuntimeError):
    """An Artifact's place is taken, or it stands at another revision (S4)."""


class RecordConflict(RuntimeError):
    """There is a Record of this id with other data (S3)."""


class ToolError(Exception):
    """Raised by a Tool for a refusal that the agent should read."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


for _public in (ArtifactConflict, ToolError):
    # Authors import these from loomsvc.authoring, and `errors:` names them so.
    _public.__module__ = "loomsvc.authoring"
