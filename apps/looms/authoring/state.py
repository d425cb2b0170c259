"""The State of one Stage while a segment runs: one pydantic model, checked at every assignment."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ValidationError

from apps.core import json_text
from apps.core.validation import issues_of
from apps.looms.authoring.refusals import StateInvalid
from apps.looms.authoring.values import Bounds, dumped, in_words


class StateCell:
    """Holds the present State; ``None`` throughout in a Stage that declares none.

    State is stored under its Python field names, whatever aliases the model has for other uses.
    """

    def __init__(self, model: type[BaseModel] | None, bounds: Bounds) -> None:
        self._model = model
        self._bounds = bounds
        self._value: BaseModel | None = None

    def load(self, stored: Any) -> None:
        """Take up the State that an earlier segment left.  Raises :class:`StateInvalid`."""
        if self._model is not None:
            self._value = self._read(stored, "The stored State does not fit")

    def _read(self, stored: Any, refusal: str) -> BaseModel:
        assert self._model is not None
        try:
            return self._model.model_validate_json(json_text.dumps(stored), by_alias=False, by_name=True)
        except ValidationError as error:
            raise StateInvalid(f"{refusal} {self._model.__name__}: {in_words(issues_of(error, stored))}") from None

    @property
    def value(self) -> Any:
        return self._value

    def assign(self, value: Any) -> None:
        """Make ``value`` the State.  Raises :class:`StateInvalid`."""
        if self._model is None:
            raise StateInvalid("This Stage declares no State; name its model in `state:` of loom.yaml.")
        if not isinstance(value, self._model):
            raise StateInvalid(f"State must be a {self._model.__name__}, not {type(value).__name__}.")
        self._value = self._checked(dict(value))

    def update(self, fields: dict[str, Any]) -> None:
        """Replace some fields.  Raises :class:`StateInvalid`."""
        if self._model is None or self._value is None:
            raise StateInvalid("This Stage declares no State; name its model in `state:` of loom.yaml.")
        self._value = self._checked({**dict(self._value), **fields}, fields)

    def _checked(self, members: dict[str, Any], fields: dict[str, Any] | None = None) -> BaseModel:
        assert self._model is not None
        known = self._model.model_fields
        unknown = [name for name in fields or () if name not in known]
        if unknown and self._model.model_config.get("extra") != "allow":
            raise StateInvalid(f"{self._model.__name__} has no {', '.join(unknown)}; it has: {', '.join(known)}.")
        try:
            return self._model.model_validate(members, by_alias=False, by_name=True)
        except ValidationError as error:
            issues = issues_of(error, members)
            raise StateInvalid(f"State does not fit {self._model.__name__}: {in_words(issues)}") from None

    def snapshot(self) -> Any:
        """The State as JSON that can be stored and loaded again.  Raises :class:`StateInvalid`.

        Changes made inside the model, past every assignment, are met here.
        """
        if self._value is None:
            return None
        try:
            stored = dumped(self._value, to_load_again=True)
        except ValueError as error:
            raise StateInvalid(f"State cannot be stored: {error}") from None
        problem = self._bounds.problem(stored)
        if problem:
            raise StateInvalid(f"State cannot be stored: {problem}")
        self._read(stored, "State was changed into something that does not fit")
        return stored
