"""From what Code hands over to JSON that can be kept (contract section 1)."""

from __future__ import annotations

import json
import math
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


def _has_no_number(value: Any) -> bool:
    """Whether a dumped model holds a NaN or an infinity."""
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, float) and not math.isfinite(item):
            return True
        if isinstance(item, dict):
            stack.extend(item.values())
        elif isinstance(item, (list, tuple, set, frozenset)):
            stack.extend(item)
    return False


def dumped(model: BaseModel, *, to_load_again: bool = False) -> Any:
    """A model as JSON: as others read it, or ``to_load_again`` (field names, no computed fields).

    Raises ``ValueError`` for NaN and infinities, of which pydantic would make ``null``.
    """
    by_alias = not to_load_again
    plain = model.model_dump(mode="json", by_alias=by_alias, round_trip=to_load_again, warnings=False)
    if "null" in json.dumps(plain) and _has_no_number(model.model_dump(round_trip=to_load_again, warnings=False)):
        raise ValueError("It holds NaN or an infinity: send finite numbers, or None where there is none.")
    return plain


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
            try:
                value = dumped(value)
            except ValueError as error:
                raise ResultInvalid(f"{what} cannot be stored: {error}") from None
        problem = self.problem(value)
        if problem:
            raise ResultInvalid(f"{what} cannot be stored: {problem}")
        return json_text.loads(json_text.dumps(value))

    def id(self, value: Any, what: str) -> str:
        """``value`` if it may be an id; raises :class:`ResultInvalid`."""
        if not is_id(value) or self.secrets.in_text(value):
            raise ResultInvalid(f"{what} must be a text of 1 to {MAX_ID} printable characters.")
        return str(value)
