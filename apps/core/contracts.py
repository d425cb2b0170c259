"""The base of every shape that crosses a face: frozen, strict, camelCase on the wire (E3, N6).

Convention for outputs: a field whose default is ``None`` is left out when it is ``None``; a field
without a default stays, as ``null`` if need be.  Convention for inputs: ``null`` for an optional
member means the same as leaving it out.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Self, cast

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
)
from pydantic.alias_generators import to_camel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode, JsonSchemaValue
from pydantic_core import PydanticCustomError, core_schema

from apps.core import conf, json_text
from apps.core.errors import invalid_request
from apps.core.validation import issues_of


class WireSchema(GenerateJsonSchema):
    """JSON Schema of what is really on the wire: optional output members are absent, never null."""

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        inner = schema["schema"]
        if self.mode == "serialization" and schema.get("default", ...) is None and inner["type"] == "nullable":
            return self.generate_inner(inner["schema"])
        return super().default_schema(schema)

    def ser_schema(self, schema: Any) -> JsonSchemaValue | None:
        # The wrap serializer below only leaves members out; the model's own schema still holds.
        return None if schema["type"] == "function-wrap" else super().ser_schema(schema)

    def field_title_should_be_set(self, schema: Any) -> bool:
        # "Operationid" tells nobody anything, and every Tool's schema is read by an agent that pays for it.
        return False

    def field_is_required(self, field: Any, total: bool) -> bool:
        return super().field_is_required(field, total) if self.mode == "validation" else not _has_default(field)


def _has_default(field: Any) -> bool:
    return bool(field["schema"]["type"] == "default" and field["schema"].get("default", ...) is None)


#: Docstrings cite our rules; clients do not know them.
_RULES = re.compile(r"\s*\((?:contract section \d+|[A-Z]{1,2}\d+(?:[,–] ?[A-Z]{1,2}\d+)*)\)")


def _for_clients(schema: Any) -> Any:
    """The schema with descriptions as clients should read them."""
    if isinstance(schema, list):
        return [_for_clients(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    shown = {name: _for_clients(part) for name, part in schema.items()}
    if isinstance(shown.get("description"), str):
        shown["description"] = _RULES.sub("", shown["description"]).replace("``", "`")
    return shown


class Contract(BaseModel):
    """One wire shape.  Python names are snake_case, wire names camelCase."""

    model_config = ConfigDict(
        frozen=True, strict=True, extra="forbid", alias_generator=to_camel, populate_by_name=True, allow_inf_nan=False
    )

    @model_serializer(mode="wrap")
    def _leave_out_absent(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        body: dict[str, Any] = handler(self)
        for name, field in type(self).model_fields.items():
            if field.default is None and getattr(self, name) is None:
                body.pop(field.alias or name, None)
                body.pop(name, None)
        return body

    def to_wire(self) -> dict[str, Any]:
        """JSON members as they go out."""
        return self.model_dump(mode="json", by_alias=True)

    @classmethod
    def parse(cls, arguments: Any) -> Self:
        """Check raw JSON ``arguments``; raises ``INVALID_REQUEST`` with every issue (E3, K23)."""
        issues = json_text.find_argument_issues(arguments, max_bytes=conf.settings().max_value_bytes)
        if issues:
            raise invalid_request(cls.__name__, issues)
        try:
            return cls.model_validate(arguments, by_alias=True, by_name=False)
        except ValidationError as error:
            raise invalid_request(cls.__name__, issues_of(error, arguments)) from None

    @classmethod
    def wire_schema(cls, mode: JsonSchemaMode = "validation") -> dict[str, Any]:
        """The JSON Schema of this shape as input (``validation``) or output (``serialization``)."""
        schema = cls.model_json_schema(by_alias=True, mode=mode, schema_generator=WireSchema)
        return cast("dict[str, Any]", _for_clients(schema))


class Empty(Contract):
    """No members."""


_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE | re.ASCII)


def _uuid_text(value: str) -> str:
    # Not uuid.UUID: it takes braces, underscores and the digits of any script for parts of one.
    if _UUID.fullmatch(value) is None:
        raise PydanticCustomError("uuid", "Send a UUID such as 0198c1f2-7c7e-7000-8000-000000000000.")
    return value.lower()


#: A UUID in any case; lower-case inside (O1).
UuidText = Annotated[
    str, AfterValidator(_uuid_text), Field(json_schema_extra={"format": "uuid"}, min_length=36, max_length=36)
]
#: How many entries a page holds (R3, S2).
PageLimit = Annotated[int, Field(ge=1, le=200)]
Cursor = Annotated[str, Field(min_length=1, max_length=2048)]
Json = Any
