"""A Loom's settings, read from ``LOOM_<LOOM>_<FIELD>``; never stored, never shown."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from apps.looms.diagnostics import Diagnostic
from apps.looms.domain.names import LOOM_FILE


def variable(loom: str, field: str) -> str:
    """The environment variable of a setting."""
    return f"LOOM_{loom}_{field}".upper()


def read_settings(
    model: type[BaseModel], loom: str, environ: Mapping[str, str], line: int | None
) -> tuple[BaseModel | None, list[Diagnostic]]:
    """The settings; or a diagnostic for each variable that is missing or does not fit, without its value.

    A field that takes more than text is written as JSON.
    """
    values: dict[str, Any] = {}
    for field in model.model_fields:
        text = environ.get(variable(loom, field))
        if text is not None:
            values[field] = text
    try:
        return _validate(model, values), []
    except ValidationError as error:
        details = _details(error)
    for field in {str(detail["loc"][0]) for detail in details if detail["loc"]}:
        if field in values:
            try:
                values[field] = json.loads(values[field])
            except (ValueError, RecursionError):
                continue
    try:
        return _validate(model, values), []
    except ValidationError as error:
        return None, [_diagnostic(loom, detail, line) for detail in _details(error)]


def _validate(model: type[BaseModel], values: dict[str, Any]) -> BaseModel:
    return model.model_validate(values, strict=False, by_alias=False, by_name=True)


def _details(error: ValidationError) -> list[ErrorDetails]:
    return error.errors(include_url=False, include_input=False, include_context=False)


def _diagnostic(loom: str, detail: ErrorDetails, line: int | None) -> Diagnostic:
    if not detail["loc"]:
        return Diagnostic.error(LOOM_FILE, line, "The settings do not fit together.", "Check the LOOM_… variables.")
    name = variable(loom, str(detail["loc"][0]))
    if detail["type"] == "missing" and len(detail["loc"]) == 1:
        return Diagnostic.error(LOOM_FILE, line, f"The setting {name} is missing.", f"Set {name} in the environment.")
    # A validator's own text may repeat the value, which may be secret.
    reason = "it does not fit" if detail["type"] in ("value_error", "assertion_error") else detail["msg"].lower()
    return Diagnostic.error(LOOM_FILE, line, f"The setting {name} cannot be used: {reason}.", f"Correct {name}.")
