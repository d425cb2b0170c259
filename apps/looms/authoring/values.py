"""From what Code hands over to JSON that can be kept (contract section 1)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel

from apps.core import json_text
from apps.core.errors import Issue
from apps.looms.authoring.refusals import ResultInvalid
from apps.looms.domain.names import MAX_ID, is_id
from apps.looms.secret_values import SecretValues

_SHOWN = 5


def in_words(issues: list[Issue]) -> str:
    """The first issues as one line: ``/items/0: Send a finite number …``."""
    shown = "; ".join(f"{issue.path or 'the whole value'}: {issue.suggestion}" for issue in issues[:_SHOWN])
    return shown if len(issues) <= _SHOWN else f"{shown}; and {len(issues) - _SHOWN} more"


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a value may be: JSON of at most ``max_bytes``, without the values of secret settings."""

    max_bytes: int = json_text.MAX_VALUE_BYTES
    secrets: SecretValues = field(default_factory=SecretValues)

    def problem(self, value: Any) -> str | None:
        """Why a JSON value cannot be kept, ``None`` when it can."""
        issues = json_text.find_issues(value, max_bytes=self.max_bytes)
        if issues:
            return in_words(issues)
        place = self.secrets.find(value)
        return None if place is None else f"{place or 'the whole value'}: It holds the value of a secret setting."

    def json(self, value: Any, what: str) -> Any:
        """A copy of ``value`` as JSON; a pydantic model is dumped.  Raises :class:`ResultInvalid`."""
        if isinstance(value, BaseModel):
            value = value.model_dump(mode="json", warnings=False)
        problem = self.problem(value)
        if problem:
            raise ResultInvalid(f"{what} cannot be stored: {problem}")
        return json_text.loads(json_text.dumps(value))

    def id(self, value: Any, what: str) -> str:
        """``value`` if it may be an id; raises :class:`ResultInvalid`."""
        if not is_id(value) or self.secrets.in_text(value):
            raise ResultInvalid(f"{what} must be a text of 1 to {MAX_ID} printable characters.")
        return str(value)
