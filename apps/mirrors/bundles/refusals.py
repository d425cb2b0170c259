"""The one refusal of this format."""

from __future__ import annotations

from apps.core.errors import ErrorCode, LoomError
from apps.core.redaction import mask_credentials

_LONGEST = 300


class MirrorInvalid(LoomError):
    """It is no Mirror, or not as it was made; ``entry`` is where that shows (M7)."""

    def __init__(self, problem: str, *, entry: str = "") -> None:
        self.entry = _shown(entry)
        self.problem = _shown(problem)
        where = f"{self.entry}: " if self.entry else ""
        super().__init__(
            ErrorCode.MIRROR_INVALID,
            f"This is no Mirror that can be taken: {where}{self.problem}. Nothing was written; get it again from "
            "where it was exported.",
            details={"entry": self.entry, "problem": self.problem},
        )


def _shown(text: str) -> str:
    """Names come from strangers: one line, and not endless."""
    plain = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text[:_LONGEST])
    return mask_credentials(plain)
