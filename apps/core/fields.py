"""Model fields shared by the domain apps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db import models

from apps.core import json_text

if TYPE_CHECKING:
    _TextField = models.TextField[Any, Any]
else:
    _TextField = models.TextField


class JsonTextField(_TextField):
    """Business JSON kept as the text it was given as, never as ``jsonb`` (contract section 1).

    With ``null=True``, ``None`` is the database's NULL ("nothing there"); without it, ``None`` is
    JSON's ``null``.
    """

    if TYPE_CHECKING:
        _pyi_private_set_type: Any
        _pyi_private_get_type: Any

    def from_db_value(self, value: str | None, expression: Any, connection: Any) -> Any:
        return None if value is None else json_text.loads(value)

    def get_prep_value(self, value: Any) -> str | None:
        return None if value is None and self.null else json_text.dumps(value)

    def to_python(self, value: Any) -> Any:
        return value

    def value_to_string(self, obj: models.Model) -> str:
        return self.get_prep_value(self.value_from_object(obj)) or ""
